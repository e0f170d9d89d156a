// The throughput table as text and as JSON.
#pragma once

#include <string>

#include "common/model_source.h"
#include "common/throughput.h"

namespace kvbook {

/// Header, one table a workload, and what the table does not show. For a terminal of 120 columns.
std::string throughput_text(const ThroughputResult& result);

/// Everything measured, raw samples included: one JSON object.
std::string throughput_json(const ThroughputResult& result);

/// True unless a row that must have the first row's tokens has others.
bool all_tokens_agree(const ThroughputResult& result);

/// Progress, measuring, text on standard output, JSON in a file if one is named. Returns the exit status: 0, or 1 if
/// tokens differ.
int print_throughput(const ThroughputPlan& plan, const NamedModel& model, int threads, const std::string& json_file);

}  // namespace kvbook
