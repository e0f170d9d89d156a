#include "chapters/09_int8/quantize.h"

namespace kvbook {
namespace {

constexpr double kGreatestCode = 127;  // and not 128 on one side only: zero stays zero, and signs cost nothing

/// What is computed in: float64 stays, shorter ones are float32.
torch::ScalarType working_type(torch::ScalarType dtype) {
  return dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

}  // namespace

// ANCHOR: quantize
torch::Tensor scales_of(const torch::Tensor& numbers, int64_t dim) {
  return numbers.abs().amax(dim, /*keepdim=*/true).to(torch::kFloat32) / kGreatestCode;
}

torch::Tensor quantize(const torch::Tensor& numbers, const torch::Tensor& scales) {
  const torch::ScalarType dtype = working_type(numbers.scalar_type());
  const torch::Tensor steps = (numbers.to(dtype) / scales.to(dtype)).round().clamp(-kGreatestCode, kGreatestCode);
  return steps.masked_fill(scales == 0, 0).to(torch::kInt8);
}

torch::Tensor dequantize(const torch::Tensor& codes, const torch::Tensor& scales, torch::ScalarType dtype) {
  const torch::ScalarType wide = working_type(dtype);
  return (codes.to(wide) * scales.to(wide)).to(dtype);
}
// ANCHOR_END: quantize

}  // namespace kvbook
