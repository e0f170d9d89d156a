// build/bin/failures: what a failure looks like from outside, beside the chapter that it was made from.
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "common/batch_generation.h"
#include "common/cli.h"
#include "common/console_text.h"
#include "common/ids.h"
#include "common/model_source.h"
#include "tests/failures/failures.h"
#include "tests/support/copy_counting_cache.h"
#include "tests/support/metered_cache.h"

namespace kvbook {
namespace {

constexpr size_t kWidth = 90;   // of a line of text
constexpr size_t kBefore = 24;  // tokens shown before the first difference, and from it on
constexpr size_t kAfter = 40;

/// The model as its user has it who tries a failed forward again.
class RetryingGpt2 final : public Gpt2Impl {
 public:
  using Gpt2Impl::Gpt2Impl;
  torch::Tensor hidden(const Step& step, KVCache& cache) override {
    try {
      return Gpt2Impl::hidden(step, cache);
    } catch (const c10::Error&) {
      return Gpt2Impl::hidden(step, cache);
    }
  }
};

/// What one cache made of a scene.
struct Told {
  std::vector<int64_t> ids;     // new ones, of the first row
  std::string error;            // empty if there was none
  std::vector<int64_t> copied;  // bytes, a forward each
  int64_t bytes = 0;            // held at the end, whatever the cache says of itself
};

/// A batch whose forward fails.
void try_batch(Gpt2& model, KVCache& cache, const std::vector<Request>& requests, int64_t rows) {
  try {
    generate_batch(model, cache, requests, {.rows = rows});
  } catch (const c10::Error&) {
    cache.abandon();
  }
}

Told tell(const Failure& failure, const Chapter& chapter, const NamedModel& named) {
  const Scene& scene = failure.scene;
  const bool wrong = chapter.name == failure.chapter.name;
  Gpt2 model = wrong ? failure.make_model(named.checkpoint) : Gpt2(named.checkpoint);
  if (scene.with_faults) model = gpt2_of<RetryingGpt2>(named.checkpoint);
  const std::vector<int64_t> prompt =
      scene.prompt.empty() ? default_prompt(named) : encode_input(named, scene.prompt, "--prompt");
  const auto generate = wrong ? failure.generate : kvbook::generate;

  const ModelShape shape = model->shape();
  CacheOptions options = default_cache_options(shape);
  options.window = scene.window.value_or(options.window);
  options.capacity = scene.capacity.value_or(options.capacity);
  options.layer_windows = scene.layer_windows;
  const bool in_batch = !scene.beside.empty() || scene.fails_first;
  options.rows = in_batch ? scene.rows : 0;
  const auto inner = chapter.make_cache(shape, options);
  MeteredCache metered(*inner);
  CopyCountingCache counting(metered);
  FailingCache cache(counting);

  Told told;
  const GenerateOptions asked{
      .new_tokens = scene.new_tokens, .chunk = scene.chunk, .on_token = [&](const torch::Tensor& next) {
        told.ids.push_back(next[0].item<int64_t>());
        if (scene.with_faults && told.ids.size() % 5 == 0) cache.arm();
      }};
  try {
    if (in_batch) {
      std::vector<Request> requests;
      if (!scene.beside.empty()) requests.push_back({encode_input(named, scene.beside, "--prompt"), scene.new_tokens});
      requests.push_back({prompt, scene.new_tokens});
      if (scene.fails_first) {
        cache.arm();
        try_batch(model, cache, requests, scene.rows);
      }
      told.ids = to_ids(generate_batch(model, cache, requests, {.rows = scene.rows}).answers.back().new_ids);
    } else {
      generate(model, cache, to_row(prompt), asked);
    }
    if (scene.with_second_row) generate(model, cache, to_row({told.ids.back()}).expand({2, 1}), asked);
  } catch (const c10::Error& error) {
    told.error = error.what_without_backtrace();
  }
  told.copied = counting.copied();
  told.bytes = metered.held();
  return told;
}

std::string flags(const Scene& scene) {
  std::string text = fmt::format("model tales, --new-tokens {}", scene.new_tokens);
  if (!scene.beside.empty()) text += fmt::format(" --prompt \"{}\"", scene.beside);
  if (!scene.prompt.empty()) text += fmt::format(" --prompt \"{}\"", scene.prompt);
  if (scene.chunk) text += fmt::format(" --chunk {}", *scene.chunk);
  if (scene.window) text += fmt::format(" --window {}", *scene.window);
  if (!scene.layer_windows.empty()) text += fmt::format(" --layer-windows {}", fmt::join(scene.layer_windows, ","));
  if (scene.capacity) text += fmt::format(" --capacity {}", *scene.capacity);
  if (scene.dtype != torch::kFloat32) text += " --dtype " + dtype_name(scene.dtype);
  if (scene.with_faults) text += ", and every fifth forward fails once";
  if (!scene.beside.empty() && scene.rows == 1) text += " --rows 1";
  if (scene.fails_first) text += ", asked once more after the first forward had failed";
  if (scene.with_second_row) text += ", then the last token in two rows";
  return text;
}

void print_indented(const std::string& text) {
  for (const std::string& line : wrapped(text, kWidth)) fmt::print("  {}\n", line);
}

/// Where the two begin to say something else.
size_t first_difference(const Told& right, const Told& wrong) {
  const auto end = right.ids.begin() + std::min(right.ids.size(), wrong.ids.size());
  return std::mismatch(right.ids.begin(), end, wrong.ids.begin()).first - right.ids.begin();
}

/// What was said, around token number `difference`.
void print_told(const std::string& name, const Told& told, size_t difference, const NamedModel& model) {
  const size_t first = difference > kBefore ? difference - kBefore : 0;
  const size_t end = std::min(told.ids.size(), difference + kAfter);
  fmt::print("\n{}\n", name);
  if (first < end) {
    const std::string text = readable(model.tokenizer.get(), {told.ids.begin() + first, told.ids.begin() + end});
    print_indented((first > 0 ? "..." : "") + text + (end < told.ids.size() ? " ..." : ""));
  }
  if (!told.error.empty()) print_indented("after " + std::to_string(told.ids.size()) + " tokens: " + told.error);
}

void print_difference(const std::string& right_name, const Told& right, const std::string& wrong_name,
                      const Told& wrong, size_t difference, const NamedModel& model) {
  const auto word = [&](const std::vector<int64_t>& ids) { return readable(model.tokenizer.get(), {ids[difference]}); };
  if (difference < std::min(right.ids.size(), wrong.ids.size())) {
    fmt::print("\ntoken {} is the first that differs: '{}', and not '{}'\n", difference + 1, word(wrong.ids),
               word(right.ids));
  } else if (right.ids.size() == wrong.ids.size()) {
    fmt::print("\nthe same {} tokens\n", difference);
  } else {
    const bool right_stops = right.ids.size() < wrong.ids.size();
    fmt::print("\n{} stops after {} tokens, {} goes on to {}\n", right_stops ? right_name : wrong_name, difference,
               right_stops ? wrong_name : right_name, std::max(right.ids.size(), wrong.ids.size()));
  }
}

/// The first forwards of every chapter's cache, and of the broken one.
void print_copies(const Failure& failure, const NamedModel& model) {
  constexpr size_t kForwards = 10;
  std::vector<Chapter> list;
  for (const Chapter& chapter : chapters()) {
    if (chapter.make_cache) list.push_back(chapter);
  }
  list.push_back(failure.chapter);
  fmt::print("\ncopied in each forward, in kB (a token is {:.1f}): the prompt, then one token at a time\n",
             key_value_bytes(model.checkpoint.config.shape(), 1, 1, 4) / 1e3);
  for (const Chapter& chapter : list) {
    fmt::print("{:<20}", chapter.name);
    const Told told = tell(failure, chapter, model);
    for (size_t i = 0; i < std::min(kForwards, told.copied.size()); ++i) fmt::print(" {:>6.1f}", told.copied[i] / 1e3);
    fmt::print("\n");
  }
}

void show(const Failure& failure) {
  const Chapter& right_chapter = find_chapter(failure.chapter.same_tokens_as);
  const NamedModel model = open_model("tales", failure.scene.dtype);
  fmt::print("{}: {}\n", failure.chapter.name, failure.chapter.change);
  for (const std::string& line : wrapped(flags(failure.scene), kWidth)) fmt::print("{}\n", line);
  if (failure.scene.shows_copies) {
    print_copies(failure, model);
  } else {
    const Told right = tell(failure, right_chapter, model), wrong = tell(failure, failure.chapter, model);
    const size_t difference = first_difference(right, wrong);
    print_told(right_chapter.name, right, difference, model);
    print_told(failure.chapter.name, wrong, difference, model);
    print_difference(right_chapter.name, right, failure.chapter.name, wrong, difference, model);
    if (wrong.bytes > right.bytes && !failure.scene.with_second_row) {  // two rows take twice as much
      fmt::print("keys and values take {:.2f} MB; those of {} take {:.2f} MB\n", wrong.bytes / 1e6, right_chapter.name,
                 right.bytes / 1e6);
    }
  }
  fmt::print("\nsymptom:   {}\ncaught by: {}\ncure:      {}\n", failure.symptom, failure.check, failure.cure);
}

}  // namespace
}  // namespace kvbook

int main(int argc, char** argv) {
  using namespace kvbook;
  return exit_status_of("failures", [&] {
    std::string name;
    bool list = false;
    CLI::App app("What goes wrong in caches, seen from outside. Without a name: all of them", "failures");
    const CLI::Option* named = app.add_option("NAME", name, "one failure; the code is tests/failures/NAME.cpp");
    app.add_flag("--list", list, "name them");
    if (!parse_or_help(app, argc, argv)) return 0;
    at::set_num_threads(1);
    if (list) {
      for (const Failure& failure : failures()) fmt::print("{:<31} {}\n", failure.chapter.name, failure.chapter.change);
      return 0;
    }
    if (named->count() > 0) {
      show(find_failure(name));
      return 0;
    }
    for (const Failure& failure : failures()) {
      show(failure);
      if (&failure != &failures().back()) fmt::print("\n{:-<92}\n\n", "");
    }
    return 0;
  });
}
