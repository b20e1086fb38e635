// The experts' feed-forward networks over rows that lie in order of experts: few rows, many rows, all
// formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/many_rows.hpp"
#include "kernels/cuda/weights.hpp"

namespace troupe::kernels::cuda {

/// Experts of one shape on the device: a layer's.
struct expert_set {
  weight_format format = weight_format::bf16;
  std::size_t hidden = 0;
  std::size_t ffn = 0;
  bool gated = true;
  activation act = activation::silu;
  /// [experts, gated: gate and up, otherwise one], [ffn, hidden] each. The table in device memory, and a copy
  /// of it on the host.
  const weight_matrix* first = nullptr;
  std::span<const weight_matrix> first_on_host;
  /// [experts], [hidden, ffn] each, likewise.
  const weight_matrix* second = nullptr;
  std::span<const weight_matrix> second_on_host;

  weight_shape first_shape() const { return {format, ffn, hidden}; }

  weight_shape second_shape() const { return {format, hidden, ffn}; }
};

/// Rows of one expert; those of the next follow them.
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
  /// Quantized matrices that are BF16 at one time, for many rows: bounds that memory.
  std::size_t dequantized_matrices = 8;
};

/// Memory for passes of one after the other, and how they are made.
class expert_pass {
 public:
  /// @errors device_error
  explicit expert_pass(const expert_pass_limits& limits);

  struct arguments {
    expert_set experts;
    /// Host memory; free when `run` returns.
    std::span<const expert_rows> rows;
    /// [rows, hidden], device memory, dense, in order of `rows`.
    const bfloat16* input = nullptr;
    /// [rows, hidden], device memory, dense.
    bfloat16* output = nullptr;
    /// All rows by `few_rows`: a row's bits depend on the row and the expert alone.
    bool batch_invariant = false;
  };

  /// For every row: down(act(gate x) · (up x)). Experts with up to 32 rows stream their weights once
  /// (`few_rows`), others go through cuBLAS in groups, quantized ones made BF16 first; with the latter, gate
  /// and up are rounded to BF16 before they are multiplied.
  /// @errors device_error; kernel_error when a limit is exceeded
  void run(const stream& on, const arguments& args);

 private:
  void run_few(const stream& on, const arguments& args, std::size_t num_items, std::size_t most_rows);
  void run_many(const stream& on, const arguments& args, std::span<const row_item> items);
  const bfloat16* weights_of(const stream& on, const weight_shape& shape, const weight_matrix* on_device,
                             std::span<const weight_matrix> on_host, std::size_t first, std::size_t place);
  void multiply(const stream& on, const many_rows_args& args, std::span<const row_item> items,
                std::span<const bfloat16* const> weights);

  // What experts with many rows take besides: taken when the first of them comes.
  struct many_rows_memory {
    explicit many_rows_memory(const expert_pass_limits& limits);

    many_rows products;
    device_memory gates;       // [most_rows, ffn]
    device_memory ups;         // [most_rows, ffn]
    device_memory dequantized; // [dequantized_matrices, ffn · hidden]; where weights are quantized
  };

  expert_pass_limits limits_;
  pinned_memory host_items_;
  device_memory items_;
  event copied_;         // the pinned items are free again
  device_memory hidden_; // [most_rows, ffn]
  std::optional<many_rows_memory> many_;
  std::vector<row_item> many_items_;
};

} // namespace troupe::kernels::cuda
