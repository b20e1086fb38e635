// The working set of one micro-batch on the attention side on a GPU.
#pragma once

#include "kernels/cuda/row_runs.hpp"
#include "kernels/cuda/tiled_rows.hpp"
#include "kernels/model/attention_backend.hpp"
#include "kernels/model/cuda/growing_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::model {

/// The state of a pass, as known to the host.
struct pass_progress {
  std::size_t layer = 0;
  std::size_t operation = 0; ///< of the layer: the next one
  std::size_t num_topk = 0;
  bool waits = false; ///< for the experts of `layer`
  std::size_t num_experts = 0;
  std::size_t row_bytes = 0;
  std::uint64_t router_ns = 0; ///< 0: not measured
};

/// Buffers grow to the largest micro-batch seen. Between two calls of the backend none of them is in use.
class cuda_pass final : public attention_pass {
 public:
  routed_rows routed() const override;
  void read_rows(std::byte* out) const override;

  /// Starts a new micro-batch, and copies it to the device. Table width and last position are rounded, so
  /// that they seldom change from step to step.
  /// @param kv_slots       tokens that fit into the KV cache: a bound of rows' slots and blocks
  /// @param most_run_rows  that attention takes as one run
  /// @param latent_heads   of multi-head latent attention, for `head_items`; 0: none
  /// @param pads           pads a decode step to the rows of its bucket (decode_buckets.hpp): the cache then
  /// has one more block, after all others, for the keys of padding
  void assign(const kernels::cuda::stream& on, const micro_batch& batch, std::size_t block_tokens,
              std::size_t kv_slots, std::size_t most_run_rows, std::size_t latent_heads, bool pads);

  /// Starts copying to the host what the experts of the layer need, for `routed` and `read_rows`. They are
  /// waited for from now on.
  void download_routed(const kernels::cuda::stream& on, const route_op& route);

  /// Removes the choices of padding from the table on the host, once it has arrived.
  void forget_padding();

  /// Copies the experts' answers to pinned memory, [num_rows · num_topk, hidden]; those of padding are 0.
  /// @param slot_rows  as in attention_backend::resume
  const std::byte* gather_answers(std::span<const std::byte* const> slot_rows);

  /// Of the micro-batch.
  std::size_t num_given_rows() const { return num_given_rows_; }

  /// Rows that the device computes: those of the micro-batch, then padding.
  std::size_t num_rows() const { return num_rows_; }

  /// One row per sequence, and few enough rows for graphs to pay.
  bool is_decode_step() const { return is_decode_step_; }

  // The micro-batch in device memory.
  const std::uint32_t* tokens() const { return inputs_.as<std::uint32_t>(); }

  const std::uint32_t* positions() const { return tokens() + num_rows_; }

  const std::uint32_t* slots() const { return tokens() + 2 * num_rows_; }

  /// [num_sequences, table_width].
  const std::uint32_t* block_tables() const { return tokens() + 3 * num_rows_; }

  std::size_t num_sequences() const { return num_sequences_; }

  std::size_t table_width() const { return table_width_; }

  std::uint32_t most_position() const { return most_position_; }

  /// All rows as pieces for `multiply_rows`.
  const kernels::cuda::row_item* items() const { return items_.as<kernels::cuda::row_item>(); }

  std::size_t num_items() const { return num_items_; }

  /// The heads of all rows as pieces for `multiply_rows`, a matrix each (head_products.hpp).
  const kernels::cuda::row_item* head_items() const { return head_items_.as<kernels::cuda::row_item>(); }

  std::size_t num_head_items() const { return num_head_items_; }

  /// All rows as runs, on the device and on the host.
  const kernels::cuda::row_run* device_runs() const { return device_runs_.as<kernels::cuda::row_run>(); }

  std::span<const kernels::cuda::row_run> runs() const { return runs_; }

  // Activations in device memory.
  growing_device residual;      // f32 [rows, hidden]
  growing_device normed;        // bf16 [rows, hidden]
  growing_device mlp_output;    // bf16 [rows, hidden]: dense MLP or shared expert
  growing_device router_logits; // f32 [rows, experts]
  growing_device chosen;        // [rows, top_k]
  growing_device weights;       // f32 [rows, top_k]
  growing_device offsets;       // [experts + 1]
  growing_device entries;       // [rows · top_k]
  growing_device weighted;      // bf16 [rows, hidden]: normed rows times their weights
  growing_device answers;       // bf16 [rows · top_k, hidden]

  pass_progress progress;

  /// Unique among the passes of this process.
  std::uint64_t number() const { return number_; }

  /// The addresses of all its memory.
  void add_addresses(std::vector<const std::byte*>& to) const;

 private:
  std::uint64_t number_ = next_number();
  std::size_t num_given_rows_ = 0;
  std::size_t num_rows_ = 0;
  bool is_decode_step_ = false;
  std::size_t num_sequences_ = 0;
  std::size_t table_width_ = 0;
  std::size_t num_items_ = 0;
  std::size_t num_head_items_ = 0;
  std::uint32_t most_position_ = 0;
  static std::uint64_t next_number();

  growing_pinned host_inputs_;
  growing_device inputs_; // tokens, positions, slots, block tables
  std::vector<kernels::cuda::row_run> runs_;
  growing_pinned host_runs_;
  growing_device device_runs_;
  growing_pinned host_items_;
  growing_device items_;
  growing_pinned host_head_items_;
  growing_device head_items_;
  growing_pinned host_rows_;  // bf16 [rows, hidden]
  growing_pinned host_table_; // offsets, entries
  growing_pinned given_;      // the source of `answers`
};

/// Casts a pass of this backend.
inline cuda_pass& pass_of(attention_pass& pass) {
  return static_cast<cuda_pass&>(pass);
}

/// Cuts rows 0 to `count` into pieces for `multiply_rows`, all of matrix 0.
void cut_into_items(std::size_t count, kernels::cuda::row_item* out);

/// The number of such pieces.
constexpr std::size_t items_of(std::size_t count) {
  const auto at_once = kernels::cuda::item_rows_for(count);
  return (count + at_once - 1) / at_once;
}

} // namespace troupe::model
