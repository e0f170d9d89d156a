// A chapter as data: what programs, tour, tests and table need to know of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/checkpoint.h"
#include "common/key_value_ranges.h"
#include "common/kv_cache.h"
#include "common/session.h"
#include "common/trace.h"

namespace kvbook {

/// How many numbers share a scale, in a cache that rounds them.
enum class Scales {
  kToken,    // the channels of a token, in one head
  kChannel,  // all tokens of a channel, measured before
  kGroup,    // the tokens of a group, a channel each
};

/// What a reader may ask of a cache. Each chapter takes what has a meaning for it.
struct CacheOptions {
  int64_t window;                           // W: tokens that a query sees, itself included
  int64_t capacity;                         // C: slots
  std::vector<int64_t> layer_windows = {};  // a layer each, 0: a full layer; none: all are full
  int64_t rows = 0;        // of a cache whose rows have lengths of their own; 0: as many as the first step has
  int64_t page = 16;       // tokens
  int64_t pool_pages = 0;  // 0: room for every row up to the context
  Scales scales = Scales::kToken;
  int64_t group = 32;           // tokens
  KeyValueRanges ranges = {};   // for scales a channel
  int64_t resident_layers = 2;  // those with room in memory, where the others lie in a file
  std::string spill = {};       // the file's folder; empty: the system's for temporary files
};

/// Both as large as the context: nothing is forgotten, nothing refused early.
inline CacheOptions default_cache_options(const ModelShape& shape) { return {shape.context, shape.context}; }

struct NamedModel;

struct Chapter {
  std::string name = {};            // of its folder, program and row: "03_masked_offsets"
  std::string same_tokens_as = {};  // the chapter whose tokens it must give; empty for the first
  std::string change = {};          // against that chapter, in a few words
  std::string rounds = {};          // what it rounds, so that the same tokens are not promised; empty: nothing

  // Which flags of the contract have a meaning here.
  bool takes_chunk = false;
  bool takes_turns = false;
  bool takes_window = false;
  bool takes_capacity = false;
  bool takes_layer_windows = false;
  bool takes_rows = false;    // several prompts at once, each of its own length
  bool takes_pages = false;   // a pool of pages of a given size
  bool takes_spill = false;   // some layers lie in a file
  bool takes_scales = false;  // numbers are rounded, and share scales of a given kind

  /// Why a chunk of two or more tokens is refused once the cache holds some; empty where it is not.
  std::string no_chunk_on_history = {};

  /// One of the two is set. make_cache: an empty cache. open_uncached: a chapter without one has its own session.
  std::function<std::unique_ptr<KVCache>(const ModelShape&, const CacheOptions&)> make_cache = {};
  std::function<std::unique_ptr<Session>(const Checkpoint&)> open_uncached = {};
  /// For scales a channel: the ranges of a model's keys and values.
  std::function<KeyValueRanges(const NamedModel&)> measure_ranges = {};
};

/// An empty session of this chapter. The model's parameters are the checkpoint's tensors, not copies.
/// `on_forward`, if not empty, hears of every forward on its cache.
std::unique_ptr<Session> open_session(const Chapter& chapter, const Checkpoint& checkpoint, const CacheOptions& options,
                                      const ForwardListener& on_forward = {});

}  // namespace kvbook
