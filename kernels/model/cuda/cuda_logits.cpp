// cuda_attention after the layers: logits and tokens; and copies of KV blocks.
#include "kernels/cuda/kv_blocks.hpp"
#include "kernels/cuda/permute.hpp"
#include "kernels/error.hpp"
#include "kernels/model/cuda/block_copies.hpp"
#include "kernels/model/cuda/cuda_attention.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::model {

namespace cuda = kernels::cuda;
using kernels::bfloat16;
using kernels::dtype;
using kernels::expect;

/// @returns [rows.size(), vocab] in device memory, ready once the stream gets there, valid until the next
/// call
const float* cuda_attention::compute_logits(cuda_pass& pass, std::span<const std::uint32_t> rows) {
  const auto n = rows.size();
  const auto hidden = config().hidden;
  const auto vocab = config().vocab_size;
  const auto num_items = items_of(n);
  // The wanted rows, followed by their division into items.
  auto* wanted =
      host_wanted_.reserve<std::byte>(n * sizeof(std::uint32_t) + num_items * sizeof(cuda::row_item));
  for (std::size_t i = 0; i < n; ++i)
    expect(rows[i] < pass.num_given_rows(), "cuda attention: logits of a row of the micro-batch");
  std::memcpy(wanted, rows.data(), n * sizeof(std::uint32_t));
  auto* items = reinterpret_cast<cuda::row_item*>(wanted + n * sizeof(std::uint32_t));
  cut_into_items(n, items);
  on_.copy_to_device(wanted_.reserve<std::uint32_t>(n), wanted, n * sizeof(std::uint32_t));
  on_.copy_to_device(last_items_.reserve<cuda::row_item>(num_items), items,
                     num_items * sizeof(cuda::row_item));

  cuda::permute(on_, {.input = pass.residual.as<float>(),
                      .input_stride = hidden * sizeof(float),
                      .num_input_rows = pass.num_rows(),
                      .row_bytes = hidden * sizeof(float),
                      .entries = wanted_.as<std::uint32_t>(),
                      .rows = n,
                      .output = last_residual_.reserve<float>(n * hidden)});
  normalize(weights_.final_norm, last_residual_.as<float>(), n, last_normed_.reserve<bfloat16>(n * hidden));
  const auto& head = weights_.lm_head();
  cuda::multiply_rows(on_, {.shape = head.shape(0),
                            .matrices = head.table(),
                            .num_matrices = 1,
                            .items = last_items_.as<cuda::row_item>(),
                            .num_items = num_items,
                            .most_rows = std::min(n, cuda::item_rows_for(n)),
                            .input = last_normed_.as<bfloat16>(),
                            .input_stride = hidden,
                            .num_input_rows = n,
                            .output = logits_.reserve<float>(n * vocab),
                            .output_type = dtype::f32,
                            .output_stride = vocab,
                            .num_output_rows = n,
                            .divisor = config().logits_divisor});
  return logits_.as<float>();
}

void cuda_attention::logits(attention_pass& pass, std::span<const std::uint32_t> rows,
                            kernels::tensor_view out) {
  if (rows.empty())
    return;
  cuda::select_device(device_);
  const work_ends_here idle_again(on_);
  const auto count = rows.size() * config().vocab_size;
  const auto* computed = compute_logits(pass_of(pass), rows);
  auto* result = host_logits_.reserve<float>(count);
  on_.copy_to_host(result, computed, count * sizeof(float));
  on_.synchronize();
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(out.row(i), result + i * config().vocab_size, config().vocab_size * sizeof(float));
}

void cuda_attention::sample(attention_pass& pass, const token_requests& wanted) {
  if (wanted.rows.empty())
    return;
  cuda::select_device(device_);
  const work_ends_here idle_again(on_);
  sampler_.sample(on_, compute_logits(pass_of(pass), wanted.rows), config().vocab_size, wanted);
}

void cuda_attention::copy_blocks(std::span<const block_copy> copies) {
  if (copies.empty())
    return;
  cuda::select_device(device_);
  const work_ends_here idle_again(on_);
  auto* on_host = host_copies_.reserve<block_copy>(copies.size());
  std::transform(copies.begin(), copies.end(), on_host, [](const block_copy& copy) {
    return block_copy{copy.from, copy.to};
  });
  auto* on_device = copies_.reserve<block_copy>(copies.size());
  on_.copy_to_device(on_device, on_host, copies.size() * sizeof(block_copy));
  for (std::size_t first = 0; first < copies.size();) {
    const auto count = independent_copies(copies.subspan(first));
    cuda::copy_blocks(on_, {.layers = layer_table_.as<cuda::kv_layer>(),
                            .num_layers = layers_.size(),
                            .copies = on_device + first,
                            .num_copies = count});
    first += count;
  }
  on_.synchronize();
}

} // namespace troupe::model
