#include "common/trace_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/console_text.h"
#include "common/kv_cache.h"

namespace kvbook {
namespace {

constexpr int64_t kStripColumns = 32;
constexpr int64_t kMatrixColumns = 64;
constexpr int64_t kMatrixRows = 16;
constexpr size_t kTokenColumns = 12;

struct Sign {
  char letter;
  const char* colour;  // of a terminal
};

Sign sign_of(SlotState state) {
  switch (state) {
    case SlotState::kNew:
      return {'+', "\x1b[32m"};
    case SlotState::kEvicted:
      return {'x', "\x1b[31m"};
    case SlotState::kHeld:
      return {'#', "\x1b[36m"};
    case SlotState::kEmpty:
      break;
  }
  return {'.', "\x1b[2m"};
}

int64_t shrinking(int64_t size, int64_t columns) { return std::max<int64_t>(1, (size + columns - 1) / columns); }

std::string size_text(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  const auto size = static_cast<double>(bytes);
  return bytes < 1000000 ? fmt::format("{:.1f} kB", size / 1e3) : fmt::format("{:.2f} MB", size / 1e6);
}

/// '#' where every pair of a square is visible, '.' where none is, '/' for some.
char sign_for(const torch::Tensor& visible) {
  if (visible.all().item<bool>()) return '#';
  return visible.any().item<bool>() ? '/' : '.';
}

/// "4 to 7, 2 to 3, 2 empty": positions as runs, and how many columns have none.
std::string runs_text(std::vector<int64_t> positions) {
  const auto empty = std::count(positions.begin(), positions.end(), kEmptySlot);
  positions.erase(std::remove(positions.begin(), positions.end(), kEmptySlot), positions.end());
  std::string text;
  for (size_t first = 0, last = 0; first < positions.size(); first = ++last) {
    while (last + 1 < positions.size() && positions[last + 1] == positions[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", positions[first]);
    if (last > first) text += fmt::format(" to {}", positions[last]);
  }
  return empty > 0 ? text + fmt::format(", {} empty", empty) : text;
}

std::string matrix(const TracedForward& forward) {
  const int64_t T = forward.visible.size(0), S = forward.visible.size(1);
  const int64_t rows = shrinking(T, kMatrixRows), columns = shrinking(S, kMatrixColumns);
  std::string text = fmt::format("         who sees whom: keys {} across", runs_text(forward.keys));
  if (rows > 1 || columns > 1) text += fmt::format(", a sign for {} x {}", rows, columns);
  text += "\n";
  for (int64_t i = 0; i < T; i += rows) {
    text += fmt::format("  {:>5}  ", forward.first_position + i);
    for (int64_t j = 0; j < S; j += columns) {
      text += sign_for(forward.visible.narrow(0, i, std::min(rows, T - i)).narrow(1, j, std::min(columns, S - j)));
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::vector<SlotState> slot_states(const TracedForward& forward) {
  std::vector<SlotState> states;
  for (const int64_t position : forward.keys) {
    const bool kept = std::find(forward.after.begin(), forward.after.end(), position) != forward.after.end();
    if (position == kEmptySlot)
      states.push_back(SlotState::kEmpty);
    else if (!kept)
      states.push_back(SlotState::kEvicted);
    else
      states.push_back(position >= forward.first_position ? SlotState::kNew : SlotState::kHeld);
  }
  if (!forward.row) states.resize(std::max(states.size(), forward.after.size()), SlotState::kEmpty);
  return states;
}

std::string TraceText::legend(bool by_layer) const {
  const char* layers = by_layer ? "L1:7: position 7, layer 1 and those with its window; bytes: of all layers\n" : "";
  return "a row a forward, a sign a slot: # held + new x not kept . empty (/3: 3 slots)\n" + std::string(layers) +
         "position   fed  slots                                  keys    bytes token\n";
}

std::string TraceText::strip(const std::vector<SlotState>& states) const {
  const auto size = static_cast<int64_t>(states.size());
  const int64_t each = shrinking(size, kStripColumns);
  std::string text;
  int64_t columns = 0;
  for (int64_t at = 0; at < size; at += each, ++columns) {
    SlotState shown = SlotState::kEmpty;  // of several slots: what happens to one rather than what lies there
    for (int64_t i = at; i < std::min(at + each, size); ++i) {
      const SlotState state = states[i];
      if (state == SlotState::kNew || (state == SlotState::kEvicted && shown != SlotState::kNew) ||
          (state == SlotState::kHeld && shown == SlotState::kEmpty)) {
        shown = state;
      }
    }
    const Sign sign = sign_of(shown);
    text += colour_ ? fmt::format("{}{}\x1b[0m", sign.colour, sign.letter) : std::string(1, sign.letter);
  }
  const std::string scale = each > 1 ? fmt::format("/{}", each) : "";
  return text + fmt::format("{:<{}}", " " + scale, kStripColumns + 4 - columns);
}

std::string TraceText::token(const TracedForward& forward) const {
  if (forward.tokens() > 1) return fmt::format("{} tokens", forward.tokens());
  std::string text = tokenizer_ != nullptr ? readable(tokenizer_, forward.ids) : fmt::format("{}", forward.ids.front());
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (text.size() <= kTokenColumns) return text;
  size_t end = kTokenColumns;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return text.substr(0, end);
}

std::string TraceText::row(const TracedForward& forward) const {
  const std::vector<SlotState> states = slot_states(forward);
  const int64_t last = forward.first_position + forward.tokens() - 1;
  std::string position =
      forward.tokens() == 1 ? fmt::format("{}", last) : fmt::format("{}-{}", forward.first_position, last);
  if (!forward.layers.empty()) position = fmt::format("L{}:{}", forward.layers.front(), position);
  if (forward.row) position = fmt::format("{}:{}", *forward.row, position);
  const auto nobodys = std::count(forward.keys.begin(), forward.keys.end(), kEmptySlot);
  std::string text = fmt::format("{:>9} {:>4}  {}  {:>4} {:>8} {}\n", position, forward.tokens(), strip(states),
                                 forward.visible.size(1) - nobodys, size_text(forward.bytes), token(forward));
  if (forward.tokens() > 1) text += matrix(forward);
  return text;
}

}  // namespace kvbook
