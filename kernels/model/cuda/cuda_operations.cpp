// How `cuda_attention` computes each kind of operation.
#include "kernels/cuda/combine.hpp"
#include "kernels/cuda/expert_table.hpp"
#include "kernels/cuda/latent_qkv.hpp"
#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/router.hpp"
#include "kernels/cuda/weigh_rows.hpp"
#include "kernels/model/cuda/cuda_attention.hpp"

#include <algorithm>

namespace troupe::model {

namespace cuda = kernels::cuda;
using kernels::bfloat16;
using kernels::dtype;

namespace {

// Attention computes as many runs at once as have partial results that fit into this, and at least one run. A
// row has heads · spans · (value width + 2) floats. 128 latent heads of 512 values take 16 MiB at 16,384
// positions: 16 rows fit, at 262,144 positions one. Experts on the same device leave room for it.
constexpr std::size_t most_workspace_floats = std::size_t{16} << 20;        // 64 MiB
constexpr std::size_t most_latent_workspace_floats = std::size_t{68} << 20; // 272 MiB

} // namespace

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
  const auto most_floats = args.cache.is_latent() ? most_latent_workspace_floats : most_workspace_floats;
  const auto rows_at_once = std::clamp<std::size_t>(most_floats / floats_of_row, args.most_run_rows,
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

} // namespace troupe::model
