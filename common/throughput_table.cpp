#include "common/throughput_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "common/cli.h"
#include "common/identity.h"
#include "common/output_file.h"

namespace kvbook {
namespace {

constexpr double kMega = 1e6;
constexpr double kGiga = 1e9;
constexpr double kMebi = 1048576;

std::string header_text(const ThroughputResult& r) {
  const Machine& m = r.machine;
  return fmt::format(
      "model {} · {} · {} threads · batch 1 · source tree at {}\n"
      "{} · last-level cache {:.0f} MiB · read bandwidth {:.1f} GB/s (measured in this process)\n"
      "LibTorch {} · BLAS {} · {} · {} {}\n",
      r.model, dtype_name(r.dtype), r.threads, m.commit, m.cpu, static_cast<double>(m.last_level_cache) / kMebi,
      r.read_bandwidth / kGiga, m.libtorch, m.blas, m.compiler, m.build_type, m.flags);
}

std::string with_spread(const std::vector<double>& values) {
  const double middle = median(values);
  if (values.size() < 2) return fmt::format("{:.1f}", middle);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{:.1f} [{:.1f}-{:.1f}]", middle, *least, *most);
}

const char* same_tokens_text(const ThroughputResult& result, const WorkloadResult& workload, const Samples& row) {
  const auto same = has_same_tokens(result, workload, row);
  if (same) return *same ? "yes" : "NO";
  if (!row.entry.chapter->rounds.empty()) return "(rounds)";
  return promises_same_tokens(result.dtype) ? "(window)" : "(bf16)";
}

std::string row_text(const ThroughputResult& r, const WorkloadResult& workload, const Samples& row) {
  const bool uncached = !row.entry.chapter->make_cache;
  const double step = row.step_ms.empty() ? median(row.ttft_ms) : median(row.step_ms);
  const double bytes_per_s = static_cast<double>(r.weight_bytes) / (step / 1e3);
  const std::string p99 = row.step_ms.empty() ? "-" : fmt::format("{:.1f}", percentile_99(row.step_ms));
  const std::string cache_ms = row.cache_step_ms.empty() ? "-" : fmt::format("{:.2f}", median(row.cache_step_ms));
  const std::string mark = uncached && workload.workload.uncached_new_tokens < workload.workload.new_tokens ? " *" : "";
  return fmt::format(
      "{:<28} {:>7.0f} {:>8.1f} {:>19} {:>7.1f} {:>7} {:>6.1f}x {:>5.1f} {:>4.0f}% {:>7} {:>6.1f} {:>7.1f} {:>8}\n",
      row.entry.label() + mark, static_cast<double>(r.weight_bytes) / kMega, median(row.ttft_ms),
      with_spread(row.tokens_per_s), step, p99, median(row.tokens_per_s) / median(workload.rows.front().tokens_per_s),
      bytes_per_s / kGiga, 100 * bytes_per_s / r.read_bandwidth, cache_ms, static_cast<double>(row.kv_bytes) / kMega,
      static_cast<double>(row.peak_bytes) / kMega, same_tokens_text(r, workload, row));
}

std::string linear_text(const WorkloadResult& workload) {
  std::string text;
  for (const Samples& row : workload.rows) {
    if (row.linear_ms.empty()) continue;
    const double step = median(row.step_beside_linear_ms), linear = median(row.linear_ms);
    text += fmt::format("{}: a decode step takes {:.2f} ms, its at::linear calls alone {:.2f} ms: {:+.1f} %\n",
                        row.entry.label(), step, linear, 100 * (step / linear - 1));
  }
  return text;
}

std::string workload_text(const ThroughputResult& r, const WorkloadResult& workload) {
  const Samples& first_cached = workload.rows.at(std::min<size_t>(1, workload.rows.size() - 1));
  const std::set<int64_t> distinct(first_cached.new_ids.begin(), first_cached.new_ids.end());
  std::string text = fmt::format(
      "\n{} prompt tokens + {} new ones, {} · {} of the {} new ids are distinct · smallest gap {:.5f}\n",
      workload.workload.prompt.size(), first_cached.new_ids.size(),
      first_cached.repetitions == 1 ? "one repetition"
                                    : fmt::format("{} repetitions in turn, after a warm-up", first_cached.repetitions),
      distinct.size(), first_cached.new_ids.size(), first_cached.min_margin);
  text += linear_text(workload);
  text +=
      fmt::format("{:<28} {:>7} {:>8} {:>19} {:>7} {:>7} {:>7} {:>5} {:>5} {:>7} {:>6} {:>7} {:>8}\n", "", "weights",
                  "TTFT", "tok/s end to end", "ms/token", "", "x", "", "of", "cache", "KV", "peak", "same");
  text += fmt::format("{:<28} {:>7} {:>8} {:>19} {:>7} {:>7} {:>7} {:>5} {:>5} {:>7} {:>6} {:>7} {:>8}\n", "chapter",
                      "MB/tok", "ms", first_cached.repetitions == 1 ? "" : "median [min-max]", "median", "p99", "naive",
                      "GB/s", "read", "ms/tok", "MB", "MB", "tokens");
  for (const Samples& row : workload.rows) text += row_text(r, workload, row);
  if (workload.workload.uncached_new_tokens < workload.workload.new_tokens) {
    text += fmt::format(
        "* {} new tokens, once: each costs a forward over everything before it; the others' tokens are compared "
        "with these\n",
        workload.workload.uncached_new_tokens);
  }
  return text;
}

constexpr char kNotes[] =
    "\nPublished, on another machine (Mac Mini M4, CPU; S. Raschka, LLMs-from-scratch, ch04/03_kv-cache; GPT-2 124M,\n"
    "\"Hello, I am\", 200 new tokens): 27 / 144 / 166 tok/s, 1 / 5.3 / 6.1 times, for naive / cat / preallocated.\n"
    "What the table does not show: other batch sizes, other dtypes, real text (the weights are random, the work is "
    "the\n"
    "same), and the cost of loading. GB/s counts the weights only: bytes of all but the position table, over the "
    "median\n"
    "step. ms/token counts decode steps only; tok/s counts the prompt too. Cache ms/token holds the checks of the "
    "stop-watch\n"
    "around the cache, some hundredths of a millisecond; peak is the most that the cache held in any forward.\n";

constexpr char kOnce[] =
    "\nOne repetition shows what to expect, not how far it varies: on a busy machine these figures, and the factors, "
    "can be\n"
    "off several times over. The whole table has five: make bench.\n";

nlohmann::ordered_json row_json(const ThroughputResult& result, const WorkloadResult& workload, const Samples& row) {
  nlohmann::ordered_json json;
  json["chapter"] = row.entry.chapter->name;
  json["window"] = row.entry.window ? nlohmann::ordered_json(*row.entry.window) : nlohmann::ordered_json(nullptr);
  if (row.entry.in_every_other) json["in_every_other"] = true;
  json["repetitions"] = row.repetitions;
  json["new_tokens"] = row.new_ids.size();
  json["ttft_ms"] = row.ttft_ms;
  json["tokens_per_s"] = row.tokens_per_s;
  json["step_ms"] = row.step_ms;
  json["cache_step_ms"] = row.cache_step_ms;
  json["kv_bytes"] = row.kv_bytes;
  json["peak_bytes"] = row.peak_bytes;
  json["step_beside_linear_ms"] = row.step_beside_linear_ms;
  json["linear_ms"] = row.linear_ms;
  json["min_margin"] = row.min_margin;
  const auto same = has_same_tokens(result, workload, row);
  json["same_tokens"] = same ? nlohmann::ordered_json(*same) : nlohmann::ordered_json(nullptr);
  json["new_ids"] = row.new_ids;
  return json;
}

}  // namespace

std::string throughput_text(const ThroughputResult& result) {
  std::string text = header_text(result);
  for (const WorkloadResult& workload : result.workloads) text += workload_text(result, workload);
  if (result.workloads.front().rows.back().repetitions == 1) text += kOnce;  // the uncached row may have fewer
  return text + kNotes;
}

std::string throughput_json(const ThroughputResult& result) {
  nlohmann::ordered_json json;
  const Machine& m = result.machine;
  json["model"] = result.model;
  json["dtype"] = dtype_name(result.dtype);
  json["threads"] = result.threads;
  json["machine"] = {{"cpu", m.cpu},           {"last_level_cache", m.last_level_cache},
                     {"libtorch", m.libtorch}, {"blas", m.blas},
                     {"compiler", m.compiler}, {"build_type", m.build_type},
                     {"flags", m.flags},       {"commit", m.commit}};
  json["read_bandwidth"] = result.read_bandwidth;
  json["weight_bytes"] = result.weight_bytes;
  for (const WorkloadResult& workload : result.workloads) {
    nlohmann::ordered_json entry;
    entry["prompt_tokens"] = workload.workload.prompt.size();
    entry["new_tokens"] = workload.workload.new_tokens;
    entry["uncached_new_tokens"] = workload.workload.uncached_new_tokens;
    for (const Samples& row : workload.rows) entry["rows"].push_back(row_json(result, workload, row));
    json["workloads"].push_back(entry);
  }
  return json.dump(1) + "\n";
}

bool all_tokens_agree(const ThroughputResult& result) {
  for (const WorkloadResult& workload : result.workloads) {
    for (const Samples& row : workload.rows) {
      if (!has_same_tokens(result, workload, row).value_or(true)) return false;
    }
  }
  return true;
}

int print_throughput(const ThroughputPlan& plan, const NamedModel& model, int threads, const std::string& json_file) {
  ThroughputResult result = measure_throughput(plan, model.checkpoint, threads);
  result.model = model.name;
  fmt::print("{}", throughput_text(result));
  std::fflush(stdout);
  if (!json_file.empty()) write_output(json_file, throughput_json(result));
  return all_tokens_agree(result) ? 0 : 1;
}

}  // namespace kvbook
