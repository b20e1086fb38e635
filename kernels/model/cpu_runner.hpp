// The attention side of a model on the CPU: everything except the routed experts.
#pragma once

#include "kernels/context.hpp"
#include "kernels/kv_cache.hpp"
#include "kernels/model/cpu_operations.hpp"
#include "kernels/model/cpu_weights.hpp"
#include "kernels/model/forward_state.hpp"
#include "kernels/model/kv_tables.hpp"
#include "kernels/model/load_options.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/rope.hpp"

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace troupe::model {

/// Runs a model's program: embeddings, norms, attention, routers, shared experts, dense MLPs and the LM head.
/// Immutable once loaded: any number of threads may run states through it, each with its own context.
///
/// The residual stream is f32. With bf16, activations are rounded to bf16 as inputs of products, and the
/// outputs of experts (including dense and shared ones) are rounded. Queries, keys and values are f32 through
/// bias, norm and RoPE, and are rounded for the cache.
class cpu_runner {
 public:
  /// Loads the weights in the layout of the kernels. Reads only what the attention side needs.
  ///
  /// @throws model_error; std::bad_alloc
  static cpu_runner load(std::shared_ptr<const cpu_weights> weights, const load_options& options,
                         const load_progress& progress = {});

  cpu_runner(cpu_runner&&) noexcept = default;
  cpu_runner& operator=(cpu_runner&&) = delete;

  const model_config& config() const noexcept { return weights_->config(); }

  kernels::dtype type() const noexcept { return weights_->type(); }

  /// Most positions of a sequence.
  std::size_t max_positions() const noexcept { return max_positions_; }

  /// Memory of the weights.
  std::size_t num_bytes() const noexcept { return num_bytes_; }

  /// The cache that this model needs: layers grouped by shape, of the type it was loaded for.
  kernels::kv_cache_config kv_config(std::size_t block_tokens = 16) const;

  /// The block tables of a sequence.
  const kv_tables& tables() const noexcept { return tables_; }

  /// Embeds a micro-batch and runs to the first routed layer.
  ///
  /// @param batch  tokens below vocab_size, positions below max_positions(), at least one row; mistakes are
  ///               programming errors and end the process
  /// @returns experts, or done for a model without routed layers
  pause begin(kernels::context& ctx, kernels::kv_cache& cache, const micro_batch& batch,
              forward_state& state) const;

  /// Computes what needs no expert's answer (a shared expert), so that it overlaps with waiting. Optional
  /// between a pause and its `resume`, with the same result.
  void overlap(kernels::context& ctx, kernels::kv_cache& cache, forward_state& state) const;

  /// Combines the experts' outputs in top-k order and continues.
  ///
  /// @param slot_rows  [rows · top_k]: output of (row, slot), [hidden] elements of the model's dtype each;
  /// borrowed for the call
  pause resume(kernels::context& ctx, kernels::kv_cache& cache, std::span<const std::byte* const> slot_rows,
               forward_state& state) const;

  /// Final norm and LM head for some rows of a finished state.
  ///
  /// @param rows  row numbers of the micro-batch, any order
  /// @param out   [rows.size(), vocab_size], f32
  void logits(kernels::context& ctx, forward_state& state, std::span<const std::uint32_t> rows,
              kernels::tensor_view out) const;

 private:
  class loader;
  class pass;

  cpu_runner() = default;

  std::shared_ptr<const cpu_weights> weights_; // owns what matrices below may refer to
  kernels::dtype kv_type_ = kernels::dtype::f32;
  kv_tables tables_;
  std::size_t num_bytes_ = 0;
  embedding_rows embeddings_; // [vocab, hidden]
  std::size_t max_positions_ = 0;
  std::vector<float> position_embeddings_; // [max_context, hidden] or empty
  kernels::rope_table rope_;
  std::map<std::pair<float, float>, std::vector<float>> query_factors_; // [positions], by scale and floor
  std::vector<std::vector<cpu_operation>> layers_;
  cpu_norm final_norm_;
  kernels::packed_matrix lm_head_;  // [vocab, hidden]
  std::vector<float> lm_head_bias_; // [vocab] or empty
};

} // namespace troupe::model
