// A failure of real KV cache code, made small enough to read, with the check that catches it.
#pragma once

#include "tests/support/caches.h"

namespace kvbook {

/// What is run to show the symptom; said in the words of the programs' flags.
struct Scene {
  int64_t new_tokens = 24;
  std::string prompt = {};   // empty: the default one, a tale's opening of 31 tokens
  std::string beside = {};   // not empty: another prompt in the same batch, which is row 0
  int64_t rows = 2;          // of that batch; 1: the other prompt comes first
  bool fails_first = false;  // the prompt was asked before, in a batch, and its first forward failed
  std::optional<int64_t> chunk = {};
  std::optional<int64_t> window = {};
  std::vector<int64_t> layer_windows = {};
  std::optional<int64_t> capacity = {};
  torch::ScalarType dtype = torch::kFloat32;
  bool with_faults = false;      // every fifth forward fails half-way and is tried again
  bool with_second_row = false;  // then the last token is fed in two rows, and they go on
  bool shows_copies = false;     // what each forward copied, and not what was said
};

struct Failure {
  /// As in chapters/chapters.cpp. `same_tokens_as` is the chapter that is right where this one is wrong.
  Chapter chapter;
  std::string check;    // the test of the conformance suite that catches it, or of the suite named below
  std::string symptom;  // what a user sees
  std::string cure;     // and where to read about it
  Scene scene = {};
  std::string suite = "CacheConformance";
  // A model or a loop of its own, where the fault is not the cache's.
  std::function<Gpt2(const Checkpoint&)> make_model = [](const Checkpoint& checkpoint) { return Gpt2(checkpoint); };
  std::function<Generation(Gpt2&, KVCache&, const torch::Tensor&, const GenerateOptions&)> generate = kvbook::generate;
};

inline void PrintTo(const Failure& failure, std::ostream* out) { *out << failure.chapter.name; }  // for GoogleTest

/// A model of this kind, as make_model wants it.
template <typename Model>
Gpt2 gpt2_of(const Checkpoint& checkpoint) {
  return Gpt2(std::shared_ptr<Gpt2Impl>(std::make_shared<Model>(checkpoint)));
}

/// The chapter `right` with another name, another description and, if one is given, another cache.
Chapter broken(const std::string& right, const std::string& name, const std::string& change,
               decltype(Chapter::make_cache) make_cache = {});

}  // namespace kvbook
