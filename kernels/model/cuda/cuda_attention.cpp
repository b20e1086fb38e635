#include "kernels/model/cuda/cuda_attention.hpp"

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/combine.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/expert_table.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/router.hpp"
#include "kernels/error.hpp"
#include "kernels/model/cuda/decode_buckets.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace troupe::model {

namespace {

namespace cuda = kernels::cuda;
using kernels::bfloat16;
using kernels::dtype;
using kernels::expect;

// Rows of a long prefill go through attention in pieces whose partial results fit this: 64 MiB.
constexpr std::size_t most_workspace_floats = std::size_t{16} << 20;

// Of all layers, passes and shapes; each takes some of the device's memory.
constexpr std::size_t most_graphs = 2048;

std::size_t query_width(const attention_spec& spec) {
  return spec.num_heads * spec.head_dim;
}

std::size_t qkv_width(const attention_spec& spec) {
  return query_width(spec) + 2 * spec.num_kv_heads * spec.head_dim;
}

} // namespace

cuda_attention::cuda_attention(kernels::context& ctx, int device,
                               std::shared_ptr<const tensor_source> tensors, const load_options& options,
                               const load_progress& progress, bool uses_graphs)
    : device_(device),
      tensors_(std::move(tensors)),
      kv_type_(options.kv_type.value_or(dtype::bf16)),
      weights_(load_attention_weights(on_, *tensors_, ctx.instruction_set(), options, progress)),
      uses_graphs_(uses_graphs),
      graphs_(most_graphs),
      sampler_(ctx) {
  expect(kv_type_ == dtype::bf16 || kv_type_ == dtype::int8, "cuda attention: a KV cache of bf16 or int8");
}

cuda::kv_layer cuda_attention::cache_of(std::size_t layer) const {
  const auto& attention = config().layers[layer].attention;
  return {.data = nullptr,
          .blocks = blocks_,
          .block_tokens = block_tokens_,
          .kv_heads = attention.num_kv_heads,
          .head_dim = attention.head_dim,
          .type = kv_type_};
}

std::size_t cuda_attention::kv_block_bytes(std::size_t block_tokens) const {
  std::size_t total = 0;
  for (std::size_t i = 0; i < config().num_layers(); ++i) {
    auto layer = cache_of(i);
    layer.block_tokens = block_tokens;
    total += layer.block_bytes();
  }
  return total;
}

void cuda_attention::reserve_kv(std::size_t block_tokens, std::size_t blocks) {
  cuda::select_device(device_);
  block_tokens_ = block_tokens;
  blocks_ = blocks;
  const auto blocks_with_padding = blocks + (uses_graphs_ ? 1 : 0);
  cache_ = cuda::device_memory(kv_block_bytes(block_tokens) * blocks_with_padding);
  auto* next = cache_.data();
  for (std::size_t i = 0; i < config().num_layers(); ++i) {
    layers_.push_back(cache_of(i));
    layers_.back().data = next;
    layers_.back().blocks = blocks_with_padding;
    next += layers_.back().block_bytes() * blocks_with_padding;
  }
  layer_table_ = cuda::device_memory(layers_.size() * sizeof(cuda::kv_layer));
  on_.copy_to_device(layer_table_.data(), layers_.data(), layer_table_.size());
  on_.synchronize();
}

std::unique_ptr<attention_pass> cuda_attention::make_pass() {
  return std::make_unique<cuda_pass>();
}

pause cuda_attention::begin(const micro_batch& batch, attention_pass& pass) {
  cuda::select_device(device_);
  const step_graphs::forgotten_on_error graphs_guard(graphs_); // ends when no graph runs any more
  const work_ends_here idle_again(on_);
  auto& p = pass_of(pass);
  for (const auto& row : batch.rows) {
    expect(row.token < config().vocab_size, "cuda attention: token within the vocabulary");
    expect(row.position < max_positions(), "cuda attention: position within the context");
  }
  p.assign(on_, batch, block_tokens_, blocks_ * block_tokens_, most_run_rows(), uses_graphs_);
  return run_piece(p, true, [&] {
    const auto n = p.num_rows();
    const auto hidden = config().hidden;
    p.normed.reserve<bfloat16>(n * hidden);
    p.mlp_output.reserve<bfloat16>(n * hidden);
    cuda::embed(on_, {.table = weights_.embeddings.rows(),
                      .type = weights_.embeddings.type,
                      .vocab = config().vocab_size,
                      .hidden = hidden,
                      .row_scales = weights_.embeddings.row_scales.data(),
                      .tokens = p.tokens(),
                      .rows = n,
                      .output = p.residual.reserve<float>(n * hidden)});
    return run_from(0, p);
  });
}

/// Has the device do a piece of a pass, as a graph where it is a decode step's, and waits for it.
pause cuda_attention::run_piece(cuda_pass& pass, bool begins, const std::function<pause()>& work) {
  const auto before = pass.progress;
  const step_graphs::piece piece = [&](bool is_recorded) -> step_graphs::outcome {
    pass.progress = before; // a recording may have gone half the way
    measures_router_ = !is_recorded;
    router_is_measured_ = false;
    const auto stopped = work();
    return {stopped, pass.progress};
  };
  if (!uses_graphs_ || !pass.is_decode_step()) {
    const auto result = piece(false);
    wait_for_piece(pass);
    return result.stopped;
  }
  step_shape shape{.pass = pass.number(),
                   .layer = before.layer,
                   .begins = begins,
                   .has_mlp_output = before.has_mlp_output,
                   .rows = pass.num_rows(),
                   .table_width = pass.table_width(),
                   .most_position = pass.most_position(),
                   .addresses = {}};
  pass.add_addresses(shape.addresses);
  for (const auto* memory : {&qkv_, &query_, &attended_, &workspace_, &gated_})
    shape.addresses.push_back(memory->address());
  router_is_measured_ = false;
  const auto result = graphs_.run(on_, shape, piece);
  pass.progress = result.progress;
  wait_for_piece(pass);
  return result.stopped;
}

void cuda_attention::wait_for_piece(cuda_pass& pass) {
  on_.synchronize();
  if (pass.progress.waits)
    pass.forget_padding();
  pass.progress.router_ns =
      router_is_measured_
          ? static_cast<std::uint64_t>(cuda::seconds_between(router_begin_, router_end_) * 1e9)
          : 0;
}

pause cuda_attention::run_from(std::size_t layer, cuda_pass& pass) {
  auto* residual = pass.residual.as<float>();
  for (; layer < config().num_layers(); ++layer) {
    const auto& spec = config().layers[layer];
    attend(layer, pass);
    normalize(spec.mlp_norm, weights_.layers[layer].mlp_norm, residual, pass.num_rows(),
              pass.normed.as<bfloat16>());
    if (spec.moe() != nullptr) {
      route(layer, pass);
      pass.download_routed(on_, layer, config().hidden, *spec.moe());
      return pause::experts;
    }
    run_mlp(layer, pass);
    add_mlp(layer, pass);
  }
  return pause::done;
}

void cuda_attention::normalize(const norm_spec& spec, const device_vector<float>& weight, const float* input,
                               std::size_t rows, bfloat16* output) {
  switch (spec.kind) {
  case norm_kind::rms:
    cuda::rms_norm(on_, {.input = input,
                         .input_stride = config().hidden,
                         .rows = rows,
                         .cols = config().hidden,
                         .weight = weight.data(),
                         .epsilon = spec.epsilon,
                         .output = output,
                         .output_stride = config().hidden});
    break;
  }
}

/// A product of all rows with matrices `first` and on; what goes in and comes out is the caller's.
cuda::few_rows_args cuda_attention::product(const device_matrices& weights, std::size_t first,
                                            const cuda_pass& pass) const {
  const auto& shape = weights.shape(first);
  return {.shape = shape,
          .matrices = weights.table() + first,
          .num_matrices = weights.matrices().size() - first,
          .items = pass.items(),
          .num_items = pass.num_items(),
          .most_rows = std::min(pass.num_rows(), cuda::item_rows_for(pass.num_rows())),
          .input_stride = shape.inputs,
          .num_input_rows = pass.num_rows(),
          .output_stride = shape.outputs,
          .num_output_rows = pass.num_rows()};
}

void cuda_attention::attend(std::size_t layer, cuda_pass& pass) {
  const auto& spec = config().layers[layer];
  const auto& attention = spec.attention;
  const auto& weights = weights_.layers[layer];
  const auto n = pass.num_rows();
  auto* residual = pass.residual.as<float>();
  auto* normed = pass.normed.as<bfloat16>();
  normalize(spec.attention_norm, weights.attention_norm, residual, n, normed);

  auto qkv = product(weights.qkv, 0, pass);
  qkv.input = normed;
  qkv.output = qkv_.reserve<float>(n * qkv_width(attention));
  qkv.output_type = dtype::f32;
  cuda::multiply_rows(on_, qkv);

  cuda::qkv_args finish{.qkv = qkv_.as<float>(),
                        .stride = qkv_width(attention),
                        .rows = n,
                        .heads = attention.num_heads,
                        .epsilon = attention.qk_norm_epsilon,
                        .positions = pass.positions(),
                        .slots = pass.slots(),
                        .cache = layers_[layer],
                        .query = query_.reserve<bfloat16>(n * query_width(attention))};
  if (attention.qk_norm != qk_norm_kind::none) {
    const bool per_head = attention.qk_norm == qk_norm_kind::per_head;
    finish.query_norm = {weights.q_norm.data(), per_head};
    finish.key_norm = {weights.k_norm.data(), per_head};
  }
  switch (config().positions) {
  case position_kind::rotary:
    finish.cosines = weights_.cosines.data();
    finish.sines = weights_.sines.data();
    finish.num_positions = weights_.positions;
    finish.rotary_dim = config().rope.rotary_dim;
    break;
  }
  cuda::finish_qkv(on_, finish);
  attend_cached(layer, pass);

  auto output = product(weights.output, 0, pass);
  output.input = attended_.as<bfloat16>();
  output.output = residual;
  output.output_type = dtype::f32;
  output.result = cuda::few_rows_result::add;
  cuda::multiply_rows(on_, output);
}

/// Rows that attention takes as one run in every layer.
std::size_t cuda_attention::most_run_rows() const {
  std::size_t rows = cuda::most_pairs_of_block;
  for (const auto& layer : config().layers)
    rows = std::min(rows, cuda::most_run_rows_for(layer.attention.num_heads / layer.attention.num_kv_heads));
  return rows;
}

/// query_ → attended_, in pieces of as many runs as the workspace has room for.
void cuda_attention::attend_cached(std::size_t layer, cuda_pass& pass) {
  const auto& attention = config().layers[layer].attention;
  const auto runs = pass.runs();
  cuda::attention_args args{.cache = layers_[layer],
                            .query = query_.as<bfloat16>(),
                            .heads = attention.num_heads,
                            .rows = 1,
                            .positions = pass.positions(),
                            .block_tables = pass.block_tables(),
                            .num_sequences = pass.num_sequences(),
                            .table_width = pass.table_width(),
                            .scale =
                                static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim))),
                            .sliding_window = attention.window,
                            .most_position = pass.most_position(),
                            .output = attended_.reserve<bfloat16>(pass.num_rows() * query_width(attention))};
  args.most_run_rows = std::max_element(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
                         return a.rows < b.rows;
                       })->rows;
  const auto floats_of_row = cuda::attention_workspace_floats(args);
  const auto rows_at_once = std::clamp<std::size_t>(most_workspace_floats / floats_of_row, args.most_run_rows,
                                                    std::max(pass.num_rows(), args.most_run_rows));
  args.workspace = workspace_.reserve<float>(std::min(rows_at_once, pass.num_rows()) * floats_of_row);
  for (std::size_t first = 0; first < runs.size(); first += args.num_runs) {
    args.first_row = runs[first].first_row;
    args.rows = 0;
    args.num_runs = 0;
    while (first + args.num_runs < runs.size()
           && args.rows + runs[first + args.num_runs].rows <= rows_at_once)
      args.rows += runs[first + args.num_runs++].rows;
    args.runs = pass.device_runs() + first;
    cuda::attention(on_, args);
  }
}

void cuda_attention::route(std::size_t layer, cuda_pass& pass) {
  const auto& moe = *config().layers[layer].moe();
  const auto n = pass.num_rows();
  const auto pairs = n * moe.num_topk;
  pass.progress.num_topk = moe.num_topk;
  pass.progress.has_mlp_output = false;
  if (measures_router_)
    router_begin_.record(on_);
  const auto* router = static_cast<const bfloat16*>(weights_.layers[layer].router.matrices()[0].weights);
  cuda::route(on_, {.rows = n,
                    .experts = moe.num_experts,
                    .input = pass.normed.as<bfloat16>(),
                    .input_stride = config().hidden,
                    .hidden = config().hidden,
                    .weight = router,
                    .logits = pass.router_logits.reserve<float>(n * moe.num_experts),
                    .top_k = moe.num_topk,
                    .renormalise = moe.normalize_topk,
                    .chosen = pass.chosen.reserve<std::uint32_t>(pairs),
                    .weights = pass.weights.reserve<float>(pairs)});
  cuda::build_expert_table(on_, {.experts = pass.chosen.as<std::uint32_t>(),
                                 .pairs = pairs,
                                 .num_experts = moe.num_experts,
                                 .offsets = pass.offsets.reserve<std::uint32_t>(moe.num_experts + 1),
                                 .entries = pass.entries.reserve<std::uint32_t>(pairs)});
  if (measures_router_) {
    router_end_.record(on_);
    router_is_measured_ = true;
  }
}

/// A layer's dense MLP or shared expert over all rows, normed → mlp_output.
void cuda_attention::run_mlp(std::size_t layer, cuda_pass& pass) {
  const auto& mlp = weights_.layers[layer].mlp;
  const auto intermediate = mlp.shape(0).outputs;
  auto gated = product(mlp, 0, pass);
  gated.input = pass.normed.as<bfloat16>();
  gated.output = gated_.reserve<bfloat16>(pass.num_rows() * intermediate);
  gated.result = cuda::few_rows_result::activate_gated;
  gated.act = config().activation;
  cuda::multiply_rows(on_, gated);
  auto down = product(mlp, 2, pass);
  down.input = gated_.as<bfloat16>();
  down.output = pass.mlp_output.as<bfloat16>();
  cuda::multiply_rows(on_, down);
}

/// Adds mlp_output to the residual, times the shared expert's gate where there is one.
void cuda_attention::add_mlp(std::size_t layer, cuda_pass& pass) {
  cuda::add_shared_expert(on_, {.input = pass.normed.as<bfloat16>(),
                                .gate = weights_.layers[layer].shared_gate.data(),
                                .output = pass.mlp_output.as<bfloat16>(),
                                .rows = pass.num_rows(),
                                .hidden = config().hidden,
                                .residual = pass.residual.as<float>(),
                                .residual_stride = config().hidden});
}

void cuda_attention::overlap(attention_pass& pass) {
  auto& p = pass_of(pass);
  if (!p.progress.waits || p.progress.has_mlp_output || weights_.layers[p.progress.layer].mlp.empty())
    return;
  cuda::select_device(device_);
  const step_graphs::forgotten_on_error graphs_guard(graphs_); // ends when no graph runs any more
  const work_ends_here idle_again(on_);
  run_mlp(p.progress.layer, p);
  on_.synchronize();
  p.progress.has_mlp_output = true;
}

pause cuda_attention::resume(std::span<const std::byte* const> slot_rows, attention_pass& pass) {
  cuda::select_device(device_);
  const step_graphs::forgotten_on_error graphs_guard(graphs_); // ends when no graph runs any more
  const work_ends_here idle_again(on_);
  auto& p = pass_of(pass);
  expect(std::exchange(p.progress.waits, false), "cuda attention: resume after a pause for experts");
  expect(slot_rows.size() == p.num_given_rows() * p.progress.num_topk,
         "cuda attention: an output for every row and place");
  const auto pairs = p.num_rows() * p.progress.num_topk;
  const auto num_bytes = pairs * p.progress.row_bytes;
  const auto* given = p.gather_answers(slot_rows);
  return run_piece(p, false, [&] {
    const auto layer = p.progress.layer;
    on_.copy_to_device(p.answers.reserve<std::byte>(num_bytes), given, num_bytes);
    cuda::combine(on_, {.outputs = p.answers.as<bfloat16>(),
                        .num_outputs = pairs,
                        .weights = p.weights.as<float>(),
                        .top_k = p.progress.num_topk,
                        .rows = p.num_rows(),
                        .hidden = config().hidden,
                        .residual = p.residual.as<float>(),
                        .residual_stride = config().hidden});
    if (!weights_.layers[layer].mlp.empty()) {
      if (!p.progress.has_mlp_output)
        run_mlp(layer, p);
      add_mlp(layer, p);
    }
    return run_from(layer + 1, p);
  });
}

} // namespace troupe::model
