// The same random weights for both sides: packed for the CPU's kernels and, integer by integer, for the
// GPU's.
#pragma once

#include <vector>

#include "kernels/cuda/weights.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/packed_matrix.hpp"
#include "tests/gpu/check.hpp"

namespace troupe::gpu_check {

/// How weights are stored, on both sides.
enum class stored_as : std::uint8_t { bf16, int8, int4, int4_group32, int4_group64 };

const char* name_of(stored_as how);

inline constexpr stored_as every_storage[] = {stored_as::bf16, stored_as::int8, stored_as::int4,
                                              stored_as::int4_group32, stored_as::int4_group64};

/// Random weights [outputs, inputs], rows as in checkpoints.
struct test_matrix {
  std::size_t outputs = 0;
  std::size_t inputs = 0;
  std::vector<float> values;

  test_matrix(session& s, std::size_t out, std::size_t in);

  kernels::const_tensor_view view() const { return kernels::view_of(values.data(), outputs, inputs); }
};

kernels::packed_format packed_format_of(stored_as how);

/// A matrix on the device, with all its parts.
class device_matrix {
 public:
  device_matrix(session& s, stored_as how, const test_matrix& from, const std::vector<float>* bias = nullptr);

  /// Random weights directly in the device's layout: for measuring, because quantizing would take minutes.
  device_matrix(session& s, stored_as how, std::size_t outputs, std::size_t inputs);

  const kernels::cuda::weight_shape& shape() const { return shape_; }

  kernels::cuda::weight_matrix ref() const;

  /// Bytes that a product reads of it.
  std::size_t num_bytes() const {
    return weights_.size() + (group_scales_.size() + channel_scales_.size() + bias_.size()) * sizeof(float);
  }

 private:
  kernels::cuda::weight_shape shape_;
  device_array<std::byte> weights_;
  device_array<std::uint32_t> group_scales_;
  device_array<float> channel_scales_;
  device_array<float> bias_;
};

struct expert_shape {
  std::size_t hidden = 0;
  std::size_t ffn = 0;
  bool gated = true;
  bool biased = false;
  kernels::activation act = kernels::activation::silu;
  float act_limit = kernels::usual_act_limit;
};

/// Random experts of one shape on both sides.
class test_experts {
 public:
  test_experts(session& s, stored_as how, const expert_shape& shape, std::size_t count);

  const expert_shape& shape() const { return shape_; }

  const std::vector<kernels::expert_weights>& cpu() const { return cpu_; }

  kernels::cuda::weight_shape first_shape() const { return first_.front().shape(); }

  kernels::cuda::weight_shape second_shape() const { return second_.front().shape(); }

  /// Tables of matrices, on the device and on the host: gate and up of each expert, or its single first one;
  /// and its last.
  const device_array<kernels::cuda::weight_matrix>& first() const { return first_table_; }

  const device_array<kernels::cuda::weight_matrix>& second() const { return second_table_; }

  const std::vector<kernels::cuda::weight_matrix>& first_refs() const { return first_refs_; }

  const std::vector<kernels::cuda::weight_matrix>& second_refs() const { return second_refs_; }

  /// The CPU's results: rows [rows, hidden] in order of experts, `rows_of_experts` each, row r being input
  /// row from[r].
  std::vector<kernels::bfloat16> expected(session& s, std::span<const kernels::bfloat16> input,
                                          std::span<const std::uint32_t> from,
                                          std::span<const std::uint32_t> rows_of_experts) const;

 private:
  expert_shape shape_;
  std::vector<kernels::expert_weights> cpu_;
  std::vector<std::vector<float>> biases_;
  std::vector<device_matrix> first_;
  std::vector<device_matrix> second_;
  std::vector<kernels::cuda::weight_matrix> first_refs_;
  std::vector<kernels::cuda::weight_matrix> second_refs_;
  device_array<kernels::cuda::weight_matrix> first_table_;
  device_array<kernels::cuda::weight_matrix> second_table_;
};

} // namespace troupe::gpu_check
