// The experts' feed-forward networks over rows in order of experts, in all formats. many_row_experts.hpp has
// the faster way for many rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/tiled_rows.hpp"
#include "kernels/cuda/weights.hpp"

namespace troupe::kernels::cuda {

/// Experts of one shape on the device: a layer's.
struct expert_set {
  weight_format format = weight_format::bf16;
  std::size_t hidden = 0;
  std::size_t ffn = 0;
  bool gated = true;
  activation act = activation::silu;
  float act_limit = usual_act_limit;
  /// [experts, gated: gate and up, otherwise one], [ffn, hidden] each. The table in device memory, and a copy
  /// of it on the host.
  const weight_matrix* first = nullptr;
  std::span<const weight_matrix> first_on_host;
  /// [experts], [hidden, ffn] each; likewise with a copy on the host.
  const weight_matrix* second = nullptr;
  std::span<const weight_matrix> second_on_host;

  weight_shape first_shape() const { return {format, ffn, hidden}; }

  weight_shape second_shape() const { return {format, hidden, ffn}; }
};

/// Rows of one expert, followed by those of the next one.
struct expert_rows {
  std::uint32_t expert = 0;
  /// 0 is allowed.
  std::uint32_t rows = 0;
};

struct expert_pass_limits {
  /// Of all experts together.
  std::size_t most_rows = 0;
  /// Entries of `expert_rows` in one pass.
  std::size_t most_experts = 0;
  std::size_t hidden = 0;
  std::size_t ffn = 0;
  /// Quantized matrices that are held as BF16 at a time, for many rows; bounds that memory.
  std::size_t dequantized_matrices = 8;
};

/// Experts with many rows each.
struct many_row_work {
  expert_set experts;
  /// Their rows, one item per expert: host memory, and a copy on the device.
  std::span<const row_item> items;
  const row_item* items_on_device = nullptr;
  /// [rows, hidden], [rows, ffn], [rows, hidden], device memory.
  const bfloat16* input = nullptr;
  bfloat16* between = nullptr;
  bfloat16* output = nullptr;
};

/// Computes them faster than `tiled_rows`, but not batch-invariantly. The implementation needs cuBLAS, so
/// callers pass it in: `make_many_row_experts`.
class many_row_experts {
 public:
  many_row_experts() = default;
  virtual ~many_row_experts() = default;
  many_row_experts(const many_row_experts&) = delete;
  many_row_experts& operator=(const many_row_experts&) = delete;

  /// @throws device_error
  virtual void run(const stream& on, const many_row_work& work) = 0;
};

/// Memory for successive passes, and their computation.
class expert_pass {
 public:
  /// @param many  computes the experts with more than 32 rows; null: passes are batch-invariant (a row's bits
  /// depend on the row and the expert alone)
  /// @throws device_error
  explicit expert_pass(const expert_pass_limits& limits, std::unique_ptr<many_row_experts> many = nullptr);

  struct arguments {
    expert_set experts;
    /// Host memory; free when `run` returns.
    std::span<const expert_rows> rows;
    /// [rows, hidden], device memory, dense, in order of `rows`.
    const bfloat16* input = nullptr;
    /// [rows, hidden], device memory, dense.
    bfloat16* output = nullptr;
  };

  /// For every row: down(act(gate x) · (up x)). Experts with up to 32 rows use `few_rows`; those with more
  /// use `many_row_experts` if present, otherwise `tiled_rows`.
  /// @throws device_error; kernel_error if a limit is exceeded
  void run(const stream& on, const arguments& args);

 private:
  void run_items(const stream& on, const arguments& args, std::span<const row_item> items,
                 const row_item* on_device);

  expert_pass_limits limits_;
  pinned_memory host_items_;
  device_memory items_;
  event copied_;         // the pinned items may be reused
  device_memory hidden_; // [most_rows, ffn]
  std::unique_ptr<many_row_experts> many_;
  std::vector<row_item> few_items_;
  std::vector<row_item> tiled_items_;
  std::vector<row_item> many_items_; // whole experts
};

} // namespace troupe::kernels::cuda
