#include "kernels/model/cpu_runner.hpp"

#include "kernels/attention.hpp"
#include "kernels/combine.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/error.hpp"
#include "kernels/gemm.hpp"
#include "kernels/head_products.hpp"
#include "kernels/norm.hpp"
#include "kernels/query_factors.hpp"
#include "kernels/router.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace troupe::model {

namespace {

const float* data_or_null(const std::vector<float>& values) {
  return values.empty() ? nullptr : values.data();
}

void normalize(kernels::context& ctx, const cpu_norm& norm, kernels::const_tensor_view input,
               kernels::tensor_view output) {
  switch (norm.op.kind) {
  case norm_kind::rms:
    kernels::rms_norm(ctx, {.input = input,
                            .weight = norm.weight.data(),
                            .epsilon = norm.op.epsilon,
                            .output = output,
                            .group = 0});
    break;
  case norm_kind::layer:
    kernels::layer_norm(ctx, {.input = input,
                              .weight = norm.weight.data(),
                              .bias = data_or_null(norm.bias),
                              .epsilon = norm.op.epsilon,
                              .output = output});
    break;
  }
}

} // namespace

/// Runs operations on one state.
class cpu_runner::pass {
 public:
  pass(const cpu_runner& model, kernels::context& ctx, kernels::kv_cache& cache, forward_state& state)
      : model_(model), ctx_(ctx), cache_(cache), state_(state), n_(state.num_rows()) {}

  /// Goes on to the next routed layer or the end.
  pause run() {
    auto& at = state_.at_;
    for (; at.layer < model_.layers_.size(); ++at.layer, at.operation = 0)
      while (at.operation < model_.layers_[at.layer].size()) {
        const auto& op = model_.layers_[at.layer][at.operation++];
        std::visit([this](const auto& loaded) { (*this)(loaded); }, op);
        if (std::holds_alternative<cpu_route>(op))
          return pause::experts;
      }
    return pause::done;
  }

  /// Goes on to the operation that needs the experts' answers.
  void run_to_combine() {
    auto& at = state_.at_;
    for (const auto& layer = model_.layers_[at.layer];
         !std::holds_alternative<combine_op>(layer[at.operation]); ++at.operation)
      std::visit([this](const auto& loaded) { (*this)(loaded); }, layer[at.operation]);
  }

  void combine(std::span<const std::byte* const> slot_rows) {
    kernels::combine(ctx_, {.rows = slot_rows,
                            .weights = state_.topk_weights_,
                            .top_k = state_.num_topk_,
                            .row_type = model_.type(),
                            .residual = state_.residual_.rows(n_)});
    ++state_.at_.operation;
  }

 private:
  /// The places of keys and values in the present layer.
  const forward_state::kv_table& table() const {
    return state_.tables_[model_.tables_.table_of[state_.at_.layer]];
  }

  /// Rows of a kind, `width` elements each.
  kernels::tensor_view rows(rows_of kind, std::size_t width) {
    auto& buffer = state_.buffer(kind);
    buffer.reserve(is_f32(kind) ? kernels::dtype::f32 : model_.type(), n_, width);
    return buffer.rows(n_).columns(0, width);
  }

  void operator()(const cpu_norm& norm) {
    normalize(ctx_, norm, rows(norm.op.from, norm.op.width()), rows(norm.op.to, norm.op.width()));
  }

  void operator()(const cpu_project& project) {
    kernels::gemm(ctx_,
                  {.input = rows(project.op.from, project.matrix.inputs()),
                   .weight = &project.matrix,
                   .bias = data_or_null(project.bias),
                   .output = rows(project.op.to, project.matrix.outputs()),
                   .mode = project.op.adds() ? kernels::gemm_output::add : kernels::gemm_output::replace,
                   .factor = project.op.factor});
  }

  void operator()(const cpu_attend& attend) {
    const auto& op = attend.op;
    const auto q = op.query_width();
    const auto kv = op.kv_width();
    const auto qkv = rows(rows_of::projected, q + 2 * kv);
    const auto query = qkv.columns(0, q);
    const auto key = qkv.columns(q, kv);
    const auto normalize_both = [&](bool follows_rotation) {
      if (!op.norm || op.norm->follows_rotation != follows_rotation)
        return;
      normalize_heads(op, attend.query_norm, query);
      normalize_heads(op, attend.key_norm, key);
    };
    normalize_both(false);
    if (op.rotation)
      // Keys follow queries, and count as further heads.
      kernels::rope(ctx_, {.rows = qkv.columns(0, q + kv),
                           .heads = op.num_heads + op.num_kv_heads,
                           .head_dim = op.head_dim,
                           .positions = state_.positions_,
                           .table = &model_.rope_,
                           .style = *op.rotation});
    normalize_both(true);
    if (!attend.query_factors.empty())
      kernels::scale_queries(ctx_, query, state_.positions_, attend.query_factors);
    const auto layer = state_.at_.layer;
    kernels::kv_write(ctx_, {.cache = &cache_,
                             .layer = layer,
                             .keys = key,
                             .values = qkv.columns(q + kv, kv),
                             .slots = table().slots});
    kernels::attention(ctx_, {.cache = &cache_,
                              .layer = layer,
                              .query = query,
                              .heads = op.num_heads,
                              .rows = state_.attention_rows_,
                              .sequences = table().sequences,
                              .scale = op.scale,
                              .sliding_window = op.window,
                              .chunk = op.chunk,
                              .sinks = data_or_null(attend.sinks),
                              .output = rows(rows_of::attended, q)});
  }

  void operator()(const cpu_attend_latent& attend) {
    const auto& op = attend.op;
    const auto queries = rows(rows_of::projected, op.num_heads * op.head_dim());
    const auto keys = rows(rows_of::key_latent, op.key_width());
    const auto latents = keys.columns(0, op.latent_dim);
    kernels::rms_norm(
        ctx_,
        {.input = latents, .weight = attend.norm.data(), .epsilon = op.norm_epsilon, .output = latents});
    const auto rotate = [&](kernels::tensor_view heads, std::size_t count, std::size_t head_dim) {
      kernels::rope(ctx_, {.rows = heads,
                           .heads = count,
                           .head_dim = head_dim,
                           .positions = state_.positions_,
                           .table = &model_.rope_,
                           .style = op.rotation,
                           .first = head_dim - op.rope_dim});
    };
    rotate(keys.columns(op.latent_dim, op.rope_dim), 1, op.rope_dim);
    rotate(queries, op.num_heads, op.head_dim());

    state_.absorbed_.reserve(kernels::dtype::f32, n_, op.num_heads * op.key_width());
    const auto absorbed = state_.absorbed_.rows(n_).columns(0, op.num_heads * op.key_width());
    kernels::head_products(ctx_, {.input = queries,
                                  .input_step = op.head_dim(),
                                  .weights = attend.key_heads,
                                  .output = absorbed,
                                  .output_step = op.key_width()});
    for (std::size_t r = 0; r < n_; ++r)
      for (std::size_t h = 0; h < op.num_heads; ++h)
        std::memcpy(reinterpret_cast<float*>(absorbed.row(r)) + h * op.key_width() + op.latent_dim,
                    reinterpret_cast<const float*>(queries.row(r)) + h * op.head_dim() + op.nope_dim,
                    op.rope_dim * sizeof(float));

    const auto layer = state_.at_.layer;
    kernels::kv_write(ctx_,
                      {.cache = &cache_, .layer = layer, .keys = keys, .values = {}, .slots = table().slots});
    state_.attended_latent_.reserve(model_.type(), n_, op.num_heads * op.latent_dim);
    const auto attended = state_.attended_latent_.rows(n_).columns(0, op.num_heads * op.latent_dim);
    kernels::attention(ctx_, {.cache = &cache_,
                              .layer = layer,
                              .query = absorbed,
                              .heads = op.num_heads,
                              .rows = state_.attention_rows_,
                              .sequences = table().sequences,
                              .scale = op.scale,
                              .output = attended});
    kernels::head_products(ctx_, {.input = attended,
                                  .input_step = op.latent_dim,
                                  .weights = attend.value_heads,
                                  .output = rows(rows_of::attended, op.num_heads * op.value_dim),
                                  .output_step = op.value_dim});
  }

  /// Normalizes queries or keys in place: [rows, heads · head_dim].
  void normalize_heads(const attend_op& op, const std::vector<float>& weight, kernels::tensor_view heads) {
    kernels::rms_norm(ctx_, {.input = heads,
                             .weight = data_or_null(weight),
                             .epsilon = op.norm->epsilon,
                             .output = heads,
                             .group = op.norm->per_head ? op.head_dim : 0});
  }

  void operator()(const cpu_route& route) {
    const auto& experts = route.op.experts;
    const auto begin = std::chrono::steady_clock::now();
    state_.num_topk_ = experts.num_topk;
    state_.num_experts_ = experts.num_experts;
    state_.router_logits_.reserve(kernels::dtype::f32, n_, experts.num_experts);
    state_.topk_ids_.resize(n_ * experts.num_topk);
    state_.topk_weights_.resize(n_ * experts.num_topk);
    state_.expert_offsets_.resize(experts.num_experts + 1);
    state_.expert_entries_.resize(n_ * experts.num_topk);
    const auto logits = state_.router_logits_.rows(n_).columns(0, experts.num_experts);
    kernels::gemm(ctx_, {.input = state_.normed_.rows(n_),
                         .weight = &route.matrix,
                         .bias = data_or_null(route.bias),
                         .output = logits});
    kernels::route(ctx_, {.logits = logits,
                          .top_k = experts.num_topk,
                          .score = route.op.score,
                          .jitter = route.op.jitter,
                          .renormalise = route.op.renormalise,
                          .sum_offset = route.op.sum_offset,
                          .least_sum = route.op.least_sum,
                          .scale = route.op.scale,
                          .choice_bias = data_or_null(route.choice_bias),
                          .groups = route.op.groups,
                          .experts = state_.topk_ids_,
                          .weights = state_.topk_weights_});
    state_.weighs_input_ = route.op.weighs_input;
    if (route.op.weighs_input)
      weigh_inputs();
    kernels::build_expert_table({.experts = state_.topk_ids_,
                                 .num_experts = experts.num_experts,
                                 .offsets = state_.expert_offsets_,
                                 .entries = state_.expert_entries_});
    state_.router_ns_ = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count());
  }

  /// The experts' inputs take their weights, and answers count once.
  void weigh_inputs() {
    const auto& input = state_.normed_.rows(n_);
    state_.weighted_.reserve(model_.type(), n_, input.cols);
    kernels::scale_rows(ctx_, input, state_.topk_weights_, state_.weighted_.rows(n_).columns(0, input.cols));
    std::ranges::fill(state_.topk_weights_, 1.0F);
  }

  void operator()(const combine_op& /*unused*/) {
    kernels::expect(false, "cpu_runner: the answers of experts are combined by resume");
  }

  void operator()(const cpu_feed_forward& mlp) {
    const auto input = state_.normed_.rows(n_);
    const auto output = state_.mlp_output_.rows(n_);
    state_.mlp_inputs_.resize(n_);
    state_.mlp_outputs_.resize(n_);
    for (std::size_t r = 0; r < n_; ++r) {
      state_.mlp_inputs_[r] = input.row(r);
      state_.mlp_outputs_[r] = output.row(r);
    }
    const kernels::expert_segment segment{&mlp.weights, state_.mlp_inputs_, state_.mlp_outputs_};
    kernels::expert_ffn(ctx_, {.segments = {&segment, 1}, .row_type = model_.type()});
  }

  void operator()(const cpu_add& add) {
    const auto residual = state_.residual_.rows(n_);
    const auto added = state_.mlp_output_.rows(n_);
    if (add.gate.empty())
      kernels::add_rows(ctx_, added, residual, add.op.factor);
    else
      kernels::add_shared_expert(ctx_, {.input = state_.normed_.rows(n_),
                                        .gate = add.gate.data(),
                                        .factor = add.op.factor,
                                        .shared = added,
                                        .residual = residual});
  }

  const cpu_runner& model_;
  kernels::context& ctx_;
  kernels::kv_cache& cache_;
  forward_state& state_;
  std::size_t n_;
};

pause cpu_runner::begin(kernels::context& ctx, kernels::kv_cache& cache, const micro_batch& batch,
                        forward_state& state) const {
  state.assign(batch, tables_.reaches.size(), cache.config().block_tokens);
  for (const auto& row : batch.rows) {
    kernels::expect(row.token < config().vocab_size, "cpu_runner: token within the vocabulary");
    kernels::expect(row.position < max_positions(), "cpu_runner: position within the context");
  }
  const auto n = state.num_rows();
  state.residual_.reserve(kernels::dtype::f32, n, config().hidden);
  state.normed_.reserve(type(), n, config().hidden);
  state.mlp_output_.reserve(type(), n, config().hidden);
  kernels::embed(ctx, embeddings_.rows, state.tokens_, state.residual_.rows(n), config().embedding_scale,
                 embeddings_.scales);
  if (!position_embeddings_.empty())
    kernels::add_positions(
        ctx, kernels::view_of(position_embeddings_.data(), config().max_context, config().hidden),
        state.positions_, state.residual_.rows(n));
  return pass(*this, ctx, cache, state).run();
}

void cpu_runner::overlap(kernels::context& ctx, kernels::kv_cache& cache, forward_state& state) const {
  if (state.at_.layer < layers_.size())
    pass(*this, ctx, cache, state).run_to_combine();
}

pause cpu_runner::resume(kernels::context& ctx, kernels::kv_cache& cache,
                         std::span<const std::byte* const> slot_rows, forward_state& state) const {
  kernels::expect(state.at_.layer < layers_.size(), "cpu_runner: resume after a pause for experts");
  pass work(*this, ctx, cache, state);
  work.run_to_combine();
  work.combine(slot_rows);
  return work.run();
}

void cpu_runner::logits(kernels::context& ctx, forward_state& state, std::span<const std::uint32_t> rows,
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
    kernels::expect(rows[i] < all.rows, "cpu_runner: logits of a row of the micro-batch");
    std::memcpy(residual.row(i), all.row(rows[i]), config().hidden * sizeof(float));
  }
  normalize(ctx, final_norm_, residual, normed);
  kernels::gemm(ctx,
                {.input = normed, .weight = &lm_head_, .bias = data_or_null(lm_head_bias_), .output = out});
  if (config().logits_divisor != 1.0F)
    kernels::divide_rows(ctx, out, config().logits_divisor);
}

} // namespace troupe::model
