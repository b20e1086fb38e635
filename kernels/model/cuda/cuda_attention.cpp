#include "kernels/model/cuda/cuda_attention.hpp"

#include "kernels/cuda/embedding.hpp"
#include "kernels/error.hpp"
#include "kernels/model/kv_layers.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace troupe::model {

namespace {

namespace cuda = kernels::cuda;
using kernels::bfloat16;
using kernels::dtype;
using kernels::expect;

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
