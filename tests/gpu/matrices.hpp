// The same random weights for both sides: packed for the CPU's kernels and, integer by integer, for the
// GPU's.
#pragma once

#include <vector>

#include "kernels/cuda/weights.hpp"
#include "kernels/packed_matrix.hpp"
#include "tests/gpu/check.hpp"

namespace troupe::gpu_check {

/// How weights are stored, on both sides.
enum class stored_as : std::uint8_t { bf16, int8, int4, int4_group32, int4_group64 };

const char* name_of(stored_as how);

inline constexpr stored_as every_storage[] = {stored_as::bf16, stored_as::int8, stored_as::int4,
                                              stored_as::int4_group32, stored_as::int4_group64};

/// Random weights [outputs, inputs], rows as checkpoints have them.
struct test_matrix {
  std::size_t outputs = 0;
  std::size_t inputs = 0;
  std::vector<float> values;

  test_matrix(session& s, std::size_t out, std::size_t in);

  kernels::const_tensor_view view() const { return kernels::view_of(values.data(), outputs, inputs); }
};

kernels::packed_format packed_format_of(stored_as how);

/// A matrix on the device, with all that it points to.
class device_matrix {
 public:
  device_matrix(session& s, stored_as how, const test_matrix& from, const std::vector<float>* bias = nullptr);

  const kernels::cuda::weight_shape& shape() const { return shape_; }

  kernels::cuda::weight_matrix ref() const;

 private:
  kernels::cuda::weight_shape shape_;
  device_array<std::byte> weights_;
  device_array<std::uint32_t> group_scales_;
  device_array<float> channel_scales_;
  device_array<float> bias_;
};

} // namespace troupe::gpu_check
