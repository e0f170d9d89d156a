// The throughput table: what is measured, and the raw samples. Its text is made by throughput_table.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/chapter.h"
#include "common/machine.h"

namespace kvbook {

/// One line of the table: a chapter with its options.
struct TableEntry {
  const Chapter* chapter;
  std::optional<int64_t> window;  // for chapters that take one
  bool in_every_other = false;    // layer: 0, 2, ...; those between are full

  std::string label() const;  // "05_sliding_window, W = 256", "10_layer_windows, 256 / full"
};

/// One prompt and how much is generated after it.
struct Workload {
  std::vector<int64_t> prompt;
  int64_t new_tokens = 0;
  int64_t uncached_new_tokens = 0;  // chapter 1 gets fewer where all of them would take minutes
};

struct Samples {
  TableEntry entry;
  std::vector<int64_t> new_ids = {};
  bool repeatable = true;  // every repetition gave the same ids
  int64_t repetitions = 0;
  std::vector<double> ttft_ms = {};        // a repetition each
  std::vector<double> tokens_per_s = {};   // a repetition each, prompt included
  std::vector<double> step_ms = {};        // every decode step of every repetition
  std::vector<double> cache_step_ms = {};  // time inside the cache in those steps; empty for chapter 1
  int64_t kv_bytes = 0;                    // at the end
  int64_t peak_bytes = 0;                  // the most that the cache held during one step
  std::vector<double> linear_ms = {};      // at::linear calls alone, after each of some steps; empty: not measured
  std::vector<double> step_beside_linear_ms = {};  // those steps
  double min_margin = 0;
};

struct WorkloadResult {
  Workload workload;
  std::vector<Samples> rows;
};

struct ThroughputResult {
  std::string model;  // as typed
  torch::ScalarType dtype = torch::kFloat32;
  int threads = 0;
  Machine machine;
  double read_bandwidth = 0;  // bytes a second
  int64_t weight_bytes = 0;   // read for every token
  std::vector<WorkloadResult> workloads;
};

struct ThroughputPlan {
  std::vector<TableEntry> entries;  // the first is the uncached one
  std::vector<Workload> workloads;
  int repetitions = 5;  // 1: the quick form, no spread, one row beside its at::linear calls
};

/// The table's lines: every chapter, and a chapter that takes a window, or one a layer, once more at W = 256.
std::vector<TableEntry> table_entries(const std::vector<Chapter>& list);

/// A short prompt with `new_tokens` new ones, or as many as the context allows.
Workload reference_workload(const std::vector<int64_t>& prompt, int64_t new_tokens, const Gpt2Config& config);

/// A prompt of `prompt_tokens` ids, drawn with a seed, and 32 new ones (4 without a cache).
Workload drawn_workload(int64_t prompt_tokens, const Gpt2Config& config);

/// Runs the plan: one discarded warm-up each, then repetitions, entries in turn within each, not one after the other,
/// beginning with another entry each time. `threads`: what at::set_num_threads was given. Shows progress on a terminal.
/// @throws as generate().
ThroughputResult measure_throughput(const ThroughputPlan& plan, const Checkpoint& checkpoint, int threads);

/// Bytes of weights that one decode step reads: all parameters but the position table.
int64_t weight_bytes_per_token(const Checkpoint& checkpoint);

/// Does this row have the tokens that it must have: the same in every repetition, and those of the rows above it whose
/// queries see as much, as far as both go? Undefined where none are promised: the window hides some tokens and no row
/// above has the same, or the dtype is bfloat16.
std::optional<bool> has_same_tokens(const ThroughputResult& result, const WorkloadResult& workload, const Samples& row);

double median(std::vector<double> values);
/// The value that 99 % of the samples do not pass (nearest rank).
double percentile_99(std::vector<double> values);

}  // namespace kvbook
