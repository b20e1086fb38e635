// The rows of one micro-batch and everything that lives as long as its pass through the model.
#pragma once

#include "kernels/attention.hpp"
#include "kernels/growing_rows.hpp"
#include "kernels/model/micro_batch.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::model {

/// The working set of one micro-batch in flight. Buffers grow to the largest micro-batch seen and are kept,
/// so a state is reused. One per micro-batch in flight; bound to no thread.
class forward_state {
 public:
  forward_state() = default;
  forward_state(forward_state&&) noexcept = default;
  forward_state& operator=(forward_state&&) noexcept = default;

  std::size_t num_rows() const noexcept { return tokens_.size(); }

  /// The layer whose experts are waited for.
  std::size_t layer() const noexcept { return layer_; }

  /// Experts per row of that layer.
  std::size_t num_topk() const noexcept { return num_topk_; }

  std::size_t num_experts() const noexcept { return num_experts_; }

  /// Time that their choice took.
  std::uint64_t router_ns() const noexcept { return router_ns_; }

  /// What the experts see: [rows, hidden], f32 or bf16 as the model. Valid and unchanged until `resume`, so
  /// an expert batch can be sent again. Rows start 64-byte aligned: use `row(r)`, the stride is padded.
  kernels::const_tensor_view normed() const noexcept { return normed_.rows(num_rows()); }

  /// [rows · top_k]: experts of each row, best first.
  std::span<const std::uint32_t> topk_ids() const noexcept { return topk_ids_; }

  /// [rows · top_k], f32: what each expert's output is multiplied with when combined.
  std::span<const float> topk_weights() const noexcept { return topk_weights_; }

  /// [num_experts + 1]: the (row, slot) pairs of expert e are `expert_entries()` number offsets[e] to
  /// offsets[e + 1].
  std::span<const std::uint32_t> expert_offsets() const noexcept { return expert_offsets_; }

  /// [rows · top_k]: row · top_k + slot, sorted by expert, rows in order within one.
  std::span<const std::uint32_t> expert_entries() const noexcept { return expert_entries_; }

 private:
  friend class dense_model;

  /// Takes a new micro-batch; the working set keeps its memory.
  void assign(const micro_batch& batch);

  // The micro-batch.
  std::vector<std::uint32_t> tokens_;
  std::vector<std::uint32_t> positions_;
  std::vector<std::uint32_t> slots_;
  std::vector<kernels::attention_row> attention_rows_;
  std::vector<std::uint32_t> blocks_; // all block tables, one behind the other
  std::vector<kernels::attention_sequence> sequences_;

  // Where the pass stands.
  std::size_t layer_ = 0;
  std::size_t num_topk_ = 0;
  std::size_t num_experts_ = 0;
  std::uint64_t router_ns_ = 0;
  bool shared_computed_ = false;

  // Activations; "model" is f32 or bf16.
  kernels::growing_rows residual_;      // f32 [rows, hidden]
  kernels::growing_rows normed_;        // model [rows, hidden]
  kernels::growing_rows qkv_;           // f32 [rows, (heads + 2 kv_heads) · head_dim]
  kernels::growing_rows attended_;      // model [rows, heads · head_dim]
  kernels::growing_rows mlp_output_;    // model [rows, hidden]: dense MLP or shared expert
  kernels::growing_rows router_logits_; // f32 [rows, experts]
  kernels::growing_rows last_residual_; // f32 [rows asked for, hidden]
  kernels::growing_rows last_normed_;   // model [rows asked for, hidden]
  std::vector<std::uint32_t> topk_ids_;
  std::vector<float> topk_weights_;
  std::vector<std::uint32_t> expert_offsets_;
  std::vector<std::uint32_t> expert_entries_;
  std::vector<const std::byte*> mlp_inputs_;
  std::vector<std::byte*> mlp_outputs_;
};

} // namespace troupe::model
