#include "workshop/checker/report.h"

#include <fmt/format.h>

#include "common/console_text.h"

namespace kvbook {
namespace {

constexpr char kGreen[] = "\x1b[32m", kRed[] = "\x1b[31m", kBold[] = "\x1b[1m";
constexpr char kNotWritten[] = "is not written yet";
constexpr size_t kColumns = 80;

/// "     hint      text", with the text going on below itself.
std::string labelled(const char* label, const std::string& text) {
  constexpr size_t kIndent = 14;
  std::string lines;
  for (const std::string& line : wrapped(text, kColumns - kIndent)) {
    lines += fmt::format("    {:<10}{}\n", lines.empty() ? label : "", line);
  }
  return lines;
}

/// Where the very first check was stopped, what stopped it is nearer to the fault than what the property is about.
std::string hint(const Property& property, const Outcome& outcome, const std::string& cache, int number) {
  if (outcome.came.find(kNotWritten) != std::string::npos) return property.hint;
  if (outcome.came.find("has shape [0, ") != std::string::npos) {
    return "begin update() with check_update(layer, key, value): rows() and options() are known from then on";
  }
  const bool stopped = outcome.came.rfind("an exception", 0) == 0 || outcome.came.rfind("a crash", 0) == 0;
  if (number == 1 && stopped)
    return fmt::format("begin with that; build/bin/workshop {} --property 1 shows more", cache);
  return property.hint;
}

}  // namespace

std::string Report::section(const Promises& promises, const std::vector<Outcome>& outcomes) {
  int holding = 0;
  std::string lines;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Property& property = promises.properties[i];
    const Outcome& outcome = outcomes[i];
    ++count_;
    const std::string verdict = outcome.holds ? painted("holds  ", kGreen) : painted("not yet", kRed);
    lines += fmt::format("{:>3} {}  {}\n", count_, verdict, property.name);
    if (outcome.holds) {
      ++holding;
      something_written_ = true;
      continue;
    }
    if (outcome.came.find(kNotWritten) == std::string::npos) {
      something_written_ = true;
      lines += labelled("expected", property.expected);
      lines += labelled("came", outcome.came == last_came_ ? "the same as above" : outcome.came);
      last_came_ = outcome.came;
    }
    lines += labelled("hint", hint(property, outcome, cache_, count_));
    if (next_.empty()) {
      next_ = fmt::format("{}, {}; read chapters/{}/README.md", count_, property.name, promises.chapter);
      next_number_ = count_;
    }
  }
  holding_ += holding;
  const std::string head =
      fmt::format("Chapter {}, {}: {} of {}", promises.chapter.substr(1, 1), promises.title, holding, outcomes.size());
  return fmt::format("{}  (chapters/{})\n{}\n", painted(head, kBold), promises.chapter, lines);
}

std::string Report::end() const {
  std::string text = fmt::format("{} of {} hold.", holding_, count_);
  if (all_hold()) return text + " There is nothing left to do.\n";
  if (!something_written_) {
    text =
        "Nothing is written yet, and that is how it begins: open workshop/my_cache.h, write update(), and run this "
        "again. workshop/README.md goes with you in small steps.";
  } else {
    text += fmt::format(" Next: {}. To see all that the tests and the cache print: build/bin/workshop {} --property {}",
                        next_, cache_, next_number_);
  }
  std::string lines;
  for (const std::string& line : wrapped(text, kColumns)) lines += line + "\n";
  return lines;
}

std::string Report::painted(const std::string& text, const char* escape) const {
  return colour_ ? fmt::format("{}{}\x1b[0m", escape, text) : text;
}

}  // namespace kvbook
