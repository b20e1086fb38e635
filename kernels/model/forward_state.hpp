// The rows of one micro-batch, and all state of its pass through the model.
#pragma once

#include "kernels/attention.hpp"
#include "kernels/growing_rows.hpp"
#include "kernels/model/micro_batch.hpp"
#include "kernels/model/program/operations.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::model {

/// The working set of one micro-batch in flight. Buffers grow to the largest micro-batch seen and stay, so a
/// state is reused. Any thread may use it, one at a time.
class forward_state {
 public:
  forward_state() = default;
  forward_state(forward_state&&) noexcept = default;
  forward_state& operator=(forward_state&&) noexcept = default;

  std::size_t num_rows() const noexcept { return tokens_.size(); }

  /// The layer whose experts are awaited.
  std::size_t layer() const noexcept { return at_.layer; }

  /// Experts per row of that layer.
  std::size_t num_topk() const noexcept { return num_topk_; }

  std::size_t num_experts() const noexcept { return num_experts_; }

  /// Duration of their choice.
  std::uint64_t router_ns() const noexcept { return router_ns_; }

  /// The experts' input: [rows, hidden], f32 or bf16 as the model. Valid and unchanged until `resume`, so an
  /// expert batch can be sent again. Rows start 64-byte aligned: use `row(r)`, the stride is padded.
  kernels::const_tensor_view expert_inputs() const noexcept {
    return (weighs_input_ ? weighted_ : normed_).rows(num_rows());
  }

  /// [rows · top_k]: experts of each row, best first.
  std::span<const std::uint32_t> topk_ids() const noexcept { return topk_ids_; }

  /// [rows · top_k], f32: factors of the experts' outputs for combining.
  std::span<const float> topk_weights() const noexcept { return topk_weights_; }

  /// [num_experts + 1]: the (row, slot) pairs of expert e are `expert_entries()` number offsets[e] to
  /// offsets[e + 1].
  std::span<const std::uint32_t> expert_offsets() const noexcept { return expert_offsets_; }

  /// [rows · top_k]: row · top_k + slot, sorted by expert, rows in order within one.
  std::span<const std::uint32_t> expert_entries() const noexcept { return expert_entries_; }

 private:
  friend class cpu_runner;

  /// One block table of each sequence, for some of the layers.
  struct kv_table {
    std::vector<std::uint32_t> slots;  // of the rows
    std::vector<std::uint32_t> blocks; // of all sequences, concatenated
    std::vector<kernels::attention_sequence> sequences;
  };

  /// Starts a new micro-batch; the working set keeps its memory.
  void assign(const micro_batch& batch, std::size_t num_tables, std::size_t block_tokens);

  kernels::growing_rows& buffer(rows_of kind);

  // The micro-batch.
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint32_t> positions_;
  std::vector<kernels::attention_row> attention_rows_;
  std::vector<kv_table> tables_;

  // Progress of the pass.
  struct place {
    std::size_t layer = 0;
    std::size_t operation = 0;
  };

  place at_; // the next operation
  std::size_t num_topk_ = 0;
  std::size_t num_experts_ = 0;
  std::uint64_t router_ns_ = 0;
  bool weighs_input_ = false; // experts take weighted_ rows

  // Activations; "model" is f32 or bf16.
  kernels::growing_rows residual_;      // f32 [rows, hidden]
  kernels::growing_rows normed_;        // model [rows, hidden]
  kernels::growing_rows weighted_;      // model [rows, hidden]: normed rows times their weights
  kernels::growing_rows projected_;     // f32 [rows, width of the product]
  kernels::growing_rows attended_;      // model [rows, heads · value width]
  kernels::growing_rows mlp_output_;    // model [rows, hidden]: dense MLP or shared expert
  kernels::growing_rows router_logits_; // f32 [rows, experts]
  // Of multi-head latent attention.
  kernels::growing_rows query_latent_;    // f32 [rows, q_lora_rank]
  kernels::growing_rows query_normed_;    // model [rows, q_lora_rank]
  kernels::growing_rows key_latent_;      // f32 [rows, latent + rotated key]
  kernels::growing_rows absorbed_;        // f32 [rows, heads · key width]
  kernels::growing_rows attended_latent_; // model [rows, heads · latent]
  kernels::growing_rows last_residual_;   // f32 [requested rows, hidden]
  kernels::growing_rows last_normed_;     // model [requested rows, hidden]
  std::vector<std::uint32_t> topk_ids_;
  std::vector<float> topk_weights_;
  std::vector<std::uint32_t> expert_offsets_;
  std::vector<std::uint32_t> expert_entries_;
  std::vector<const std::byte*> mlp_inputs_;
  std::vector<std::byte*> mlp_outputs_;
};

} // namespace troupe::model
