// The attention side of a model on the CPU: everything but the routed experts.
#pragma once

#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/kv_cache.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/forward_state.hpp"
#include "kernels/model/load_options.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/rope.hpp"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace troupe::model {

/// Embeddings, norms, attention, routers, shared experts, dense MLPs and the LM head, and the one graph that
/// strings the ops together for every architecture. Immutable once loaded: any number of threads may run
/// states through it, each with its own context.
///
/// The residual stream is f32. With bf16, activations are rounded to bf16 where a product takes them, and the
/// outputs of experts (dense and shared ones too) as they leave; queries, keys and values are f32 through
/// bias, norm and RoPE, and rounded as the cache takes them.
class dense_model {
 public:
  /// Takes the weights in the layout that the kernels stream. Of the source only what the attention side
  /// needs is touched.
  ///
  /// @errors  model_error; std::bad_alloc
  static dense_model load(std::shared_ptr<const cpu_weights> weights, const load_options& options,
                          const load_progress& progress = {});

  dense_model(dense_model&&) noexcept = default;
  dense_model& operator=(dense_model&&) = delete;

  const model_config& config() const noexcept { return weights_->config(); }

  kernels::dtype type() const noexcept { return weights_->type(); }

  /// Positions that a sequence may have.
  std::size_t max_positions() const noexcept { return rope_.positions(); }

  /// Memory that the weights take.
  std::size_t num_bytes() const noexcept { return num_bytes_; }

  /// The cache this model wants: layers grouped by shape, of the type it was loaded for.
  kernels::kv_cache_config kv_config(std::size_t block_tokens = 16) const;

  /// Embeds a micro-batch and runs to the first routed layer.
  ///
  /// @param batch  tokens below vocab_size, positions below max_positions(), at least one row; mistakes are
  ///               programming errors and end the process
  /// @returns experts, or done for a model without routed layers
  pause begin(kernels::context& ctx, kernels::kv_cache& cache, const micro_batch& batch,
              forward_state& state) const;

  /// Computes what needs no expert's answer (a shared expert), so that it overlaps with waiting. Optional
  /// between a pause and its `resume`, with the same result.
  void overlap(kernels::context& ctx, forward_state& state) const;

  /// Combines the experts' outputs in top-k order and runs on.
  ///
  /// @param slot_rows  [rows · top_k]: output of (row, slot), [hidden] elements of the model's dtype each;
  /// borrowed for
  ///                   the call
  pause resume(kernels::context& ctx, kernels::kv_cache& cache, std::span<const std::byte* const> slot_rows,
               forward_state& state) const;

  /// Final norm and LM head for some rows of a state that is done.
  ///
  /// @param rows  row numbers of the micro-batch, any order
  /// @param out   [rows.size(), vocab_size], f32
  void logits(kernels::context& ctx, forward_state& state, std::span<const std::uint32_t> rows,
              kernels::tensor_view out) const;

 private:
  struct layer_weights {
    std::vector<float> attention_norm;          // [hidden]
    kernels::packed_matrix qkv;                 // [(heads + 2 kv_heads) · head_dim, hidden]
    std::vector<float> qkv_bias;                // [(heads + 2 kv_heads) · head_dim] or empty
    std::vector<float> q_norm;                  // [head_dim] or [heads · head_dim] or empty
    std::vector<float> k_norm;                  // [head_dim] or [kv_heads · head_dim] or empty
    kernels::packed_matrix output;              // [hidden, heads · head_dim]
    std::vector<float> output_bias;             // [hidden] or empty
    std::vector<float> mlp_norm;                // [hidden]
    kernels::packed_matrix router;              // [experts, hidden] or empty
    std::optional<kernels::expert_weights> mlp; // dense MLP or shared expert
    std::vector<float> shared_gate;             // [hidden] or empty
  };

  class loader;

  dense_model() = default;

  pause run_from(kernels::context& ctx, kernels::kv_cache& cache, std::size_t layer,
                 forward_state& state) const;
  void attend(kernels::context& ctx, kernels::kv_cache& cache, std::size_t layer, forward_state& state) const;
  void route(kernels::context& ctx, std::size_t layer, forward_state& state) const;
  void run_mlp(kernels::context& ctx, std::size_t layer, forward_state& state) const;

  std::shared_ptr<const cpu_weights> weights_; // what matrices below may look at
  kernels::dtype kv_type_ = kernels::dtype::f32;
  std::size_t num_bytes_ = 0;
  embedding_rows embeddings_; // [vocab, hidden]
  kernels::rope_table rope_;
  std::vector<layer_weights> layers_;
  std::vector<float> final_norm_;  // [hidden]
  kernels::packed_matrix lm_head_; // [vocab, hidden]
};

} // namespace troupe::model
