// What the programs have in common that measure one thing on one model and keep the raw samples.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "common/gpt2.h"

namespace kvbook {

struct MeasuringOptions {
  std::string model, json;  // json: a file for the raw samples, or empty
  int64_t threads = 1, repetitions = 5, steps = 8;
};

/// Measures, prints its tables to standard output, and adds raw samples to `json`, which has the header already.
using Measurement = std::function<void(Gpt2& model, const MeasuringOptions& options, nlohmann::ordered_json& json)>;

/// The whole of such a program's main(): flags, the model in float32 (its context must be 256 or more), a header with
/// the machine, the measurement, the file. Returns 0, or 2 for bad input.
int run_measuring_program(int argc, const char* const* argv, const std::string& name, const std::string& description,
                          const Measurement& measure);

}  // namespace kvbook
