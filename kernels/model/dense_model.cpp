// The layer graph, written once for every architecture.
#include "kernels/model/dense_model.hpp"

#include "kernels/attention.hpp"
#include "kernels/combine.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/error.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/router.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace troupe::model {

namespace {

const float* data_or_null(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

void normalize(kernels::context& ctx, const norm_spec& spec, const std::vector<float>& weight,
               kernels::const_tensor_view input, kernels::tensor_view output) {
  switch (spec.kind) {
  case norm_kind::rms:
    kernels::rms_norm(
        ctx,
        {.input = input, .weight = weight.data(), .epsilon = spec.epsilon, .output = output, .group = 0});
    break;
  }
}

/// Normalizes queries or keys where they are: [rows, heads · head_dim].
void normalize_heads(kernels::context& ctx, const attention_spec& spec, const std::vector<float>& weight,
                     kernels::tensor_view rows) {
  if (spec.qk_norm == qk_norm_kind::none)
    return;
  kernels::rms_norm(ctx, {.input = rows,
                          .weight = weight.data(),
                          .epsilon = spec.qk_norm_epsilon,
                          .output = rows,
                          .group = spec.qk_norm == qk_norm_kind::per_head ? spec.head_dim : 0});
}

} // namespace

pause dense_model::begin(kernels::context& ctx, kernels::kv_cache& cache, const micro_batch& batch,
                         forward_state& state) const {
  state.assign(batch);
  for (const auto& row : batch.rows) {
    kernels::expect(row.token < config().vocab_size, "dense_model: token within the vocabulary");
    kernels::expect(row.position < max_positions(), "dense_model: position within the context");
  }
  const auto n = state.num_rows();
  state.residual_.reserve(kernels::dtype::f32, n, config().hidden);
  state.normed_.reserve(type(), n, config().hidden);
  kernels::embed(ctx, embeddings_.rows, state.tokens_, state.residual_.rows(n), 1.0F, embeddings_.scales);
  return run_from(ctx, cache, 0, state);
}

pause dense_model::run_from(kernels::context& ctx, kernels::kv_cache& cache, std::size_t layer,
                            forward_state& state) const {
  const auto n = state.num_rows();
  for (; layer < layers_.size(); ++layer) {
    const auto& spec = config().layers[layer];
    attend(ctx, cache, layer, state);
    normalize(ctx, spec.mlp_norm, layers_[layer].mlp_norm, state.residual_.rows(n), state.normed_.rows(n));
    if (spec.moe() != nullptr) {
      route(ctx, layer, state);
      return pause::experts;
    }
    run_mlp(ctx, layer, state);
    kernels::add_rows(ctx, state.mlp_output_.rows(n), state.residual_.rows(n));
  }
  state.layer_ = layer;
  return pause::done;
}

void dense_model::attend(kernels::context& ctx, kernels::kv_cache& cache, std::size_t layer,
                         forward_state& state) const {
  const auto& spec = config().layers[layer];
  const auto& attention = spec.attention;
  const auto& weights = layers_[layer];
  const auto n = state.num_rows();
  const auto q_width = attention.num_heads * attention.head_dim;
  const auto kv_width = attention.num_kv_heads * attention.head_dim;
  const auto residual = state.residual_.rows(n);
  const auto normed = state.normed_.rows(n);
  normalize(ctx, spec.attention_norm, weights.attention_norm, residual, normed);

  state.qkv_.reserve(kernels::dtype::f32, n, q_width + 2 * kv_width);
  state.attended_.reserve(type(), n, q_width);
  const auto qkv = state.qkv_.rows(n).columns(0, q_width + 2 * kv_width);
  const auto attended = state.attended_.rows(n).columns(0, q_width);
  kernels::gemm(
      ctx, {.input = normed, .weight = &weights.qkv, .bias = data_or_null(weights.qkv_bias), .output = qkv});
  const auto query = qkv.columns(0, q_width);
  const auto key = qkv.columns(q_width, kv_width);
  const auto value = qkv.columns(q_width + kv_width, kv_width);
  normalize_heads(ctx, attention, weights.q_norm, query);
  normalize_heads(ctx, attention, weights.k_norm, key);
  switch (config().positions) {
  case position_kind::rotary:
    // Keys lie behind queries: heads like them.
    kernels::rope(ctx, {.rows = qkv.columns(0, q_width + kv_width),
                        .heads = attention.num_heads + attention.num_kv_heads,
                        .head_dim = attention.head_dim,
                        .positions = state.positions_,
                        .table = &rope_});
    break;
  }
  kernels::kv_write(ctx,
                    {.cache = &cache, .layer = layer, .keys = key, .values = value, .slots = state.slots_});
  kernels::attention(ctx,
                     {.cache = &cache,
                      .layer = layer,
                      .query = query,
                      .heads = attention.num_heads,
                      .rows = state.attention_rows_,
                      .sequences = state.sequences_,
                      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim))),
                      .sliding_window = attention.window,
                      .output = attended});
  kernels::gemm(ctx, {.input = attended,
                      .weight = &weights.output,
                      .bias = data_or_null(weights.output_bias),
                      .output = residual,
                      .mode = kernels::gemm_output::add});
}

void dense_model::route(kernels::context& ctx, std::size_t layer, forward_state& state) const {
  const auto& moe = *config().layers[layer].moe();
  const auto n = state.num_rows();
  const auto begin = std::chrono::steady_clock::now();
  state.layer_ = layer;
  state.num_topk_ = moe.num_topk;
  state.num_experts_ = moe.num_experts;
  state.shared_computed_ = false;
  state.router_logits_.reserve(kernels::dtype::f32, n, moe.num_experts);
  state.topk_ids_.resize(n * moe.num_topk);
  state.topk_weights_.resize(n * moe.num_topk);
  state.expert_offsets_.resize(moe.num_experts + 1);
  state.expert_entries_.resize(n * moe.num_topk);
  const auto router_logits = state.router_logits_.rows(n).columns(0, moe.num_experts);
  kernels::gemm(ctx,
                {.input = state.normed_.rows(n), .weight = &layers_[layer].router, .output = router_logits});
  kernels::route(ctx, {.logits = router_logits,
                       .top_k = moe.num_topk,
                       .renormalise = moe.normalize_topk,
                       .experts = state.topk_ids_,
                       .weights = state.topk_weights_});
  kernels::build_expert_table({.experts = state.topk_ids_,
                               .num_experts = moe.num_experts,
                               .offsets = state.expert_offsets_,
                               .entries = state.expert_entries_});
  state.router_ns_ = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
}

/// Runs a layer's dense MLP or shared expert over all rows, normed_ → mlp_output_.
void dense_model::run_mlp(kernels::context& ctx, std::size_t layer, forward_state& state) const {
  const auto n = state.num_rows();
  state.mlp_output_.reserve(type(), n, config().hidden);
  const auto input = state.normed_.rows(n);
  const auto output = state.mlp_output_.rows(n);
  state.mlp_inputs_.resize(n);
  state.mlp_outputs_.resize(n);
  for (std::size_t r = 0; r < n; ++r) {
    state.mlp_inputs_[r] = input.row(r);
    state.mlp_outputs_[r] = output.row(r);
  }
  const kernels::expert_segment segment{&*layers_[layer].mlp, state.mlp_inputs_, state.mlp_outputs_};
  kernels::expert_ffn(ctx, {.segments = {&segment, 1}, .row_type = type()});
}

void dense_model::overlap(kernels::context& ctx, forward_state& state) const {
  if (state.shared_computed_ || state.layer_ >= layers_.size() || !layers_[state.layer_].mlp)
    return;
  run_mlp(ctx, state.layer_, state);
  state.shared_computed_ = true;
}

pause dense_model::resume(kernels::context& ctx, kernels::kv_cache& cache,
                          std::span<const std::byte* const> slot_rows, forward_state& state) const {
  const auto n = state.num_rows();
  kernels::expect(state.layer_ < layers_.size(), "dense_model: resume after a pause for experts");
  overlap(ctx, state);
  const auto residual = state.residual_.rows(n);
  kernels::combine(ctx, {.rows = slot_rows,
                         .weights = state.topk_weights_,
                         .top_k = state.num_topk_,
                         .row_type = type(),
                         .residual = residual});
  const auto& weights = layers_[state.layer_];
  if (weights.mlp)
    kernels::add_shared_expert(ctx, {.input = state.normed_.rows(n),
                                     .gate = data_or_null(weights.shared_gate),
                                     .shared = state.mlp_output_.rows(n),
                                     .residual = residual});
  return run_from(ctx, cache, state.layer_ + 1, state);
}

void dense_model::logits(kernels::context& ctx, forward_state& state, std::span<const std::uint32_t> rows,
                         kernels::tensor_view out) const {
  const auto n = rows.size();
  if (n == 0)
    return;
  state.last_residual_.reserve(kernels::dtype::f32, n, config().hidden);
  state.last_normed_.reserve(type(), n, config().hidden);
  const auto all = state.residual_.rows(state.num_rows());
  const auto residual = state.last_residual_.rows(n);
  const auto normed = state.last_normed_.rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    kernels::expect(rows[i] < all.rows, "dense_model: logits of a row of the micro-batch");
    std::memcpy(residual.row(i), all.row(rows[i]), config().hidden * sizeof(float));
  }
  normalize(ctx, config().final_norm, final_norm_, residual, normed);
  kernels::gemm(ctx, {.input = normed, .weight = &lm_head_, .output = out});
}

} // namespace troupe::model
