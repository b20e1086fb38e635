// Products of many rows with BF16 weights, by cuBLAS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Rows of one matrix in a grouped product.
struct row_group {
  /// [outputs, inputs], row-major, device memory.
  const bfloat16* weights = nullptr;
  std::size_t first_row = 0;
  /// 0 is allowed.
  std::size_t rows = 0;
};

/// Device pointers; rows are dense.
struct many_rows_args {
  std::size_t outputs = 0;
  std::size_t inputs = 0;
  /// [rows, inputs].
  const bfloat16* input = nullptr;
  /// [rows, outputs], f32 or bf16; of grouped products bf16 only.
  void* output = nullptr;
  dtype output_type = dtype::bf16;
};

/// A cuBLAS handle with its workspace, for one thread and one stream at a time. The emulation multiplies in a
/// plain loop.
class many_rows {
 public:
  /// @param most_groups  of a grouped product
  /// @throws device_error
  explicit many_rows(std::size_t most_groups);
  ~many_rows();
  many_rows(const many_rows&) = delete;
  many_rows& operator=(const many_rows&) = delete;

  /// y = x Wᵀ, or with `add` y = y + x Wᵀ (f32 only). Sums in FP32. Their order is cuBLAS's and may depend on
  /// the number of rows, so the batch-invariant mode uses `few_rows` instead.
  /// @throws device_error
  void multiply(const stream& on, const many_rows_args& args, const bfloat16* weights, std::size_t rows,
                bool add);

  /// The same for rows of several matrices of one shape in one launch (cublasGemmGroupedBatchedEx). Copies
  /// pointers from its own pinned memory, so it cannot be recorded into a graph.
  /// @param groups  host memory, at most `most_groups`; may be freed after the call
  /// @throws device_error
  void multiply_groups(const stream& on, const many_rows_args& args, std::span<const row_group> groups);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace troupe::kernels::cuda
