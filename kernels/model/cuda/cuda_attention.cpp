#include "kernels/model/cuda/cuda_attention.hpp"

#include "kernels/cuda/combine.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/expert_table.hpp"
#include "kernels/cuda/latent_qkv.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/router.hpp"
#include "kernels/cuda/weigh_rows.hpp"
#include "kernels/error.hpp"
#include "kernels/model/cuda/decode_buckets.hpp"
#include "kernels/model/kv_layers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace troupe::model {

namespace {

namespace cuda = kernels::cuda;
using kernels::bfloat16;
using kernels::dtype;
using kernels::expect;

// Attention processes rows of a long prefill in pieces whose partial results fit into this: 64 MiB.
constexpr std::size_t most_workspace_floats = std::size_t{16} << 20;

// Most graphs of all layers, passes and shapes; each takes some of the device's memory.
constexpr std::size_t most_graphs = 2048;

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
  const auto group = kv_layer(config().layers[layer], kv_type_);
  return {.data = nullptr,
          .blocks = blocks_,
          .block_tokens = block_tokens_,
          .kv_heads = group.kv_heads,
          .head_dim = group.head_dim,
          .type = kv_type_,
          .value_dim = group.value_dim};
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
  const step_graphs::forgotten_on_error graphs_guard(graphs_); // destroyed when no graph runs any more
  const work_ends_here idle_again(on_);
  auto& p = pass_of(pass);
  for (const auto& row : batch.rows) {
    expect(row.token < config().vocab_size, "cuda attention: token within the vocabulary");
    expect(row.position < max_positions(), "cuda attention: position within the context");
  }
  p.assign(on_, batch, block_tokens_, blocks_ * block_tokens_, most_run_rows(), latent_heads(), uses_graphs_);
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
                      .scale = config().embedding_scale,
                      .tokens = p.tokens(),
                      .rows = n,
                      .position_table = weights_.position_embeddings.data(),
                      .num_positions = config().max_context,
                      .positions = p.positions(),
                      .output = p.residual.reserve<float>(n * hidden)});
    return run(p);
  });
}

/// Runs a piece of a pass on the device, as a graph if it belongs to a decode step, and waits for it.
pause cuda_attention::run_piece(cuda_pass& pass, bool begins, const std::function<pause()>& work) {
  const auto before = pass.progress;
  const step_graphs::piece piece = [&](bool is_recorded) -> step_graphs::outcome {
    pass.progress = before; // a recording may have changed it before it failed
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
                   .operation = before.operation,
                   .begins = begins,
                   .rows = pass.num_rows(),
                   .table_width = pass.table_width(),
                   .most_position = pass.most_position(),
                   .addresses = {}};
  pass.add_addresses(shape.addresses);
  for (const auto* memory : {&projected_, &query_latent_, &query_normed_, &key_latent_, &still_, &query_,
                             &attended_latent_, &attended_, &workspace_, &gated_})
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

/// Goes on to the next routed layer or the end.
pause cuda_attention::run(cuda_pass& pass) {
  auto& at = pass.progress;
  for (; at.layer < weights_.layers.size(); ++at.layer, at.operation = 0)
    while (at.operation < weights_.layers[at.layer].size()) {
      const auto& op = weights_.layers[at.layer][at.operation++];
      std::visit([&](const auto& loaded) { compute(loaded, pass); }, op);
      if (const auto* route = std::get_if<cuda_route>(&op)) {
        pass.download_routed(on_, route->op);
        return pause::experts;
      }
    }
  return pause::done;
}

/// Goes on to the operation that needs the experts' answers.
void cuda_attention::run_to_combine(cuda_pass& pass) {
  auto& at = pass.progress;
  for (const auto& layer = weights_.layers[at.layer];
       !std::holds_alternative<combine_op>(layer[at.operation]); ++at.operation)
    std::visit([&](const auto& loaded) { compute(loaded, pass); }, layer[at.operation]);
}

/// Rows of a kind; those that a pass does not keep are work space.
float* cuda_attention::f32_rows(rows_of kind, std::size_t width, cuda_pass& pass) {
  const auto count = pass.num_rows() * width;
  switch (kind) {
  case rows_of::residual:
    return pass.residual.as<float>();
  case rows_of::query_latent:
    return query_latent_.reserve<float>(count);
  case rows_of::key_latent:
    return key_latent_.reserve<float>(count);
  default:
    return projected_.reserve<float>(count);
  }
}

bfloat16* cuda_attention::model_rows(rows_of kind, std::size_t width, cuda_pass& pass) {
  const auto count = pass.num_rows() * width;
  switch (kind) {
  case rows_of::attended:
    return attended_.reserve<bfloat16>(count);
  case rows_of::query_normed:
    return query_normed_.reserve<bfloat16>(count);
  default:
    return pass.normed.as<bfloat16>();
  }
}

void cuda_attention::normalize(const cuda_norm& norm, const float* input, std::size_t rows,
                               bfloat16* output) {
  const auto width = norm.op.width();
  const cuda::norm_args args{.input = input,
                             .input_stride = width,
                             .rows = rows,
                             .cols = width,
                             .weight = norm.weight.data(),
                             .bias = norm.bias.data(),
                             .epsilon = norm.op.epsilon,
                             .output = output,
                             .output_stride = width};
  switch (norm.op.kind) {
  case norm_kind::rms:
    cuda::rms_norm(on_, args);
    break;
  case norm_kind::layer:
    cuda::layer_norm(on_, args);
    break;
  }
}

void cuda_attention::compute(const cuda_norm& norm, cuda_pass& pass) {
  const auto width = norm.op.width();
  normalize(norm, f32_rows(norm.op.from, width, pass), pass.num_rows(), model_rows(norm.op.to, width, pass));
}

/// A product of all rows with matrices from `first` on; the caller sets input and output.
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

void cuda_attention::compute(const cuda_project& project, cuda_pass& pass) {
  auto args = product(project.matrix, 0, pass);
  args.input = model_rows(project.op.from, args.shape.inputs, pass);
  args.output_type = dtype::f32;
  if (project.op.adds()) {
    args.result = cuda::few_rows_result::add;
    args.factor = project.op.factor;
  }
  args.output = f32_rows(project.op.to, args.shape.outputs, pass);
  cuda::multiply_rows(on_, args);
}

/// A product of each head's part of all rows with its matrix; the caller sets input and output.
cuda::few_rows_args cuda_attention::head_product(const device_matrices& heads, const cuda_pass& pass) const {
  const auto& shape = heads.shape(0);
  const auto count = heads.matrices().size();
  return {.shape = shape,
          .matrices = heads.table(),
          .num_matrices = count,
          .items = pass.head_items(),
          .num_items = pass.num_head_items(),
          .most_rows = std::min(pass.num_rows(), cuda::item_rows_for(pass.num_rows())),
          .row_step = count,
          .input_stride = shape.inputs,
          .num_input_rows = pass.num_rows() * count,
          .output_stride = shape.outputs,
          .num_output_rows = pass.num_rows() * count};
}

void cuda_attention::compute(const cuda_attend& attend, cuda_pass& pass) {
  const auto& op = attend.op;
  const auto n = pass.num_rows();
  cuda::qkv_args finish{.qkv = projected_.as<float>(),
                        .stride = op.query_width() + 2 * op.kv_width(),
                        .rows = n,
                        .heads = op.num_heads,
                        .positions = pass.positions(),
                        .slots = pass.slots(),
                        .cache = layers_[pass.progress.layer],
                        .query = query_.reserve<bfloat16>(n * op.query_width())};
  if (op.norm) {
    finish.epsilon = op.norm->epsilon;
    finish.query_norm = {attend.query_norm.data(), op.norm->per_head, !op.norm->query};
    finish.key_norm = {attend.key_norm.data(), op.norm->per_head, !op.norm->key};
    finish.norms_last = op.norm->follows_rotation;
  }
  finish.query_factors = attend.query_factors;
  finish.num_positions = weights_.positions;
  if (op.rotation) {
    finish.style = *op.rotation;
    finish.cosines = weights_.cosines.data();
    finish.sines = weights_.sines.data();
    finish.rotary_dim = config().rope.rotary_dim;
  }
  cuda::finish_qkv(on_, finish);
  attend_cached({.cache = finish.cache,
                 .query = finish.query,
                 .heads = op.num_heads,
                 .scale = op.scale,
                 .sliding_window = op.window,
                 .chunk = static_cast<std::uint32_t>(op.chunk),
                 .sinks = attend.sinks.data(),
                 .output = model_rows(rows_of::attended, op.query_width(), pass)},
                pass);
}

void cuda_attention::compute(const cuda_attend_latent& attend, cuda_pass& pass) {
  const auto& op = attend.op;
  const auto n = pass.num_rows();
  const auto& cache = layers_[pass.progress.layer];
  auto* still = still_.reserve<bfloat16>(n * op.num_heads * op.nope_dim);
  auto* absorbed = query_.reserve<bfloat16>(n * op.num_heads * op.key_width());
  cuda::finish_latent_qkv(on_, {.rows = n,
                                .heads = op.num_heads,
                                .nope_dim = op.nope_dim,
                                .rope_dim = op.rope_dim,
                                .queries = projected_.as<float>(),
                                .keys = key_latent_.as<float>(),
                                .norm = attend.norm.data(),
                                .epsilon = op.norm_epsilon,
                                .cosines = weights_.cosines.data(),
                                .sines = weights_.sines.data(),
                                .num_positions = weights_.positions,
                                .style = op.rotation,
                                .positions = pass.positions(),
                                .slots = pass.slots(),
                                .cache = cache,
                                .still = still,
                                .absorbed = absorbed});
  auto keys = head_product(attend.key_heads, pass);
  keys.input = still;
  keys.output = absorbed;
  keys.output_stride = op.key_width();
  cuda::multiply_rows(on_, keys);

  auto* latents = attended_latent_.reserve<bfloat16>(n * op.num_heads * op.latent_dim);
  attend_cached(
      {.cache = cache, .query = absorbed, .heads = op.num_heads, .scale = op.scale, .output = latents}, pass);
  auto values = head_product(attend.value_heads, pass);
  values.input = latents;
  values.output = model_rows(rows_of::attended, op.num_heads * op.value_dim, pass);
  cuda::multiply_rows(on_, values);
}

/// Heads of latent layers; 0: there are none.
std::size_t cuda_attention::latent_heads() const {
  for (const auto& layer : config().layers)
    if (const auto* latent = layer.find<attend_latent_op>())
      return latent->num_heads;
  return 0;
}

/// Rows that attention takes as one run in every layer.
std::size_t cuda_attention::most_run_rows() const {
  std::size_t rows = cuda::most_pairs_of_block;
  for (const auto& layer : config().layers)
    if (const auto* latent = layer.find<attend_latent_op>())
      rows = std::min(rows, cuda::most_run_rows_for(latent->num_heads));
    else if (const auto* attend = layer.find<attend_op>())
      rows = std::min(rows, cuda::most_run_rows_for(attend->num_heads / attend->num_kv_heads));
  return rows;
}

/// Attention of all rows, in pieces of as many runs as fit into the workspace.
/// @param args  without what follows from the pass
void cuda_attention::attend_cached(cuda::attention_args args, cuda_pass& pass) {
  const auto runs = pass.runs();
  args.rows = 1;
  args.positions = pass.positions();
  args.block_tables = pass.block_tables();
  args.num_sequences = pass.num_sequences();
  args.table_width = pass.table_width();
  args.most_position = pass.most_position();
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

void cuda_attention::compute(const cuda_route& route, cuda_pass& pass) {
  const auto& op = route.op;
  const auto& moe = op.experts;
  const bool is_exact = op.matrix.storage == matrix_storage::exact;
  const auto n = pass.num_rows();
  const auto pairs = n * moe.num_topk;
  pass.progress.num_topk = moe.num_topk;
  if (measures_router_)
    router_begin_.record(on_);
  cuda::route(on_, {.rows = n,
                    .experts = moe.num_experts,
                    .input = pass.normed.as<bfloat16>(),
                    .input_stride = config().hidden,
                    .hidden = config().hidden,
                    .weight = is_exact ? route.exact_matrix.data() : route.matrix.matrices()[0].weights,
                    .weight_type = is_exact ? dtype::f32 : dtype::bf16,
                    .bias = route.bias.data(),
                    .logits = pass.router_logits.reserve<float>(n * moe.num_experts),
                    .top_k = moe.num_topk,
                    .score = op.score,
                    .jitter = op.jitter,
                    .renormalise = op.renormalise,
                    .sum_offset = op.sum_offset,
                    .least_sum = op.least_sum,
                    .scale = op.scale,
                    .choice_bias = route.choice_bias.data(),
                    .groups = op.groups,
                    .chosen = pass.chosen.reserve<std::uint32_t>(pairs),
                    .weights = pass.weights.reserve<float>(pairs)});
  cuda::build_expert_table(on_, {.experts = pass.chosen.as<std::uint32_t>(),
                                 .pairs = pairs,
                                 .num_experts = moe.num_experts,
                                 .offsets = pass.offsets.reserve<std::uint32_t>(moe.num_experts + 1),
                                 .entries = pass.entries.reserve<std::uint32_t>(pairs)});
  if (op.weighs_input)
    cuda::weigh_rows(on_, {.input = pass.normed.as<bfloat16>(),
                           .rows = n,
                           .hidden = config().hidden,
                           .weights = pass.weights.as<float>(),
                           .output = pass.weighted.reserve<bfloat16>(n * config().hidden)});
  if (measures_router_) {
    router_end_.record(on_);
    router_is_measured_ = true;
  }
}

/// The experts' answers, in device memory, to the residual stream.
void cuda_attention::compute(const combine_op& /*unused*/, cuda_pass& pass) {
  cuda::combine(on_, {.outputs = pass.answers.as<bfloat16>(),
                      .num_outputs = pass.num_rows() * pass.progress.num_topk,
                      .weights = pass.weights.as<float>(),
                      .top_k = pass.progress.num_topk,
                      .rows = pass.num_rows(),
                      .hidden = config().hidden,
                      .residual = pass.residual.as<float>(),
                      .residual_stride = config().hidden});
}

void cuda_attention::compute(const cuda_feed_forward& mlp, cuda_pass& pass) {
  const auto intermediate = mlp.matrices.shape(0).outputs;
  auto gated = product(mlp.matrices, 0, pass);
  gated.input = pass.normed.as<bfloat16>();
  gated.output = gated_.reserve<bfloat16>(pass.num_rows() * intermediate);
  gated.result = mlp.op.mlp.up ? cuda::few_rows_result::activate_gated : cuda::few_rows_result::activate;
  gated.act = mlp.op.mlp.act;
  gated.act_limit = mlp.op.mlp.act_limit;
  cuda::multiply_rows(on_, gated);
  auto down = product(mlp.matrices, mlp.op.mlp.num_matrices() - 1, pass);
  down.input = gated_.as<bfloat16>();
  down.output = pass.mlp_output.as<bfloat16>();
  cuda::multiply_rows(on_, down);
}

void cuda_attention::compute(const cuda_add& add, cuda_pass& pass) {
  cuda::add_shared_expert(on_, {.input = pass.normed.as<bfloat16>(),
                                .gate = add.gate.data(),
                                .factor = add.op.factor,
                                .output = pass.mlp_output.as<bfloat16>(),
                                .rows = pass.num_rows(),
                                .hidden = config().hidden,
                                .residual = pass.residual.as<float>(),
                                .residual_stride = config().hidden});
}

void cuda_attention::overlap(attention_pass& pass) {
  auto& p = pass_of(pass);
  if (!p.progress.waits)
    return;
  cuda::select_device(device_);
  const step_graphs::forgotten_on_error graphs_guard(graphs_); // destroyed when no graph runs any more
  const work_ends_here idle_again(on_);
  run_to_combine(p);
  on_.synchronize();
}

pause cuda_attention::resume(std::span<const std::byte* const> slot_rows, attention_pass& pass) {
  cuda::select_device(device_);
  const step_graphs::forgotten_on_error graphs_guard(graphs_); // destroyed when no graph runs any more
  const work_ends_here idle_again(on_);
  auto& p = pass_of(pass);
  expect(std::exchange(p.progress.waits, false), "cuda attention: resume after a pause for experts");
  expect(slot_rows.size() == p.num_given_rows() * p.progress.num_topk,
         "cuda attention: an output for every row and place");
  const auto num_bytes = p.num_rows() * p.progress.num_topk * p.progress.row_bytes;
  const auto* given = p.gather_answers(slot_rows);
  return run_piece(p, false, [&] {
    on_.copy_to_device(p.answers.reserve<std::byte>(num_bytes), given, num_bytes);
    run_to_combine(p);
    return run(p);
  });
}

} // namespace troupe::model
