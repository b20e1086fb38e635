#include "kernels/model/cuda/cuda_pass.hpp"

#include "kernels/error.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::model {

using kernels::expect;
using kernels::cuda::row_item;

routed_rows cuda_pass::routed() const {
  const auto* table = host_table_.as<std::uint32_t>();
  return {.layer = layer,
          .num_rows = num_rows_,
          .num_topk = num_topk,
          .num_experts = num_experts_,
          .offsets = {table, num_experts_ + 1},
          .entries = {table + num_experts_ + 1, num_rows_ * num_topk},
          .router_ns = 0};
}

void cuda_pass::read_rows(std::byte* out) const {
  std::memcpy(out, host_rows_.as<std::byte>(), num_rows_ * row_bytes_);
}

void cuda_pass::assign(const kernels::cuda::stream& on, const micro_batch& batch, std::size_t block_tokens,
                       std::size_t kv_slots) {
  expect(!batch.rows.empty(), "cuda pass: a micro-batch has rows");
  num_rows_ = batch.rows.size();
  num_sequences_ = batch.sequences.size();
  table_width_ = 0;
  for (const auto& table : batch.sequences)
    table_width_ = std::max(table_width_, table.size());
  most_position_ = 0;
  waits = false;
  has_mlp_output = false;

  const auto words = 4 * num_rows_ + num_sequences_ * table_width_;
  auto* tokens = host_inputs_.reserve<std::uint32_t>(words);
  for (std::size_t r = 0; r < num_rows_; ++r) {
    const auto& row = batch.rows[r];
    expect(row.sequence < num_sequences_, "cuda pass: sequence of a row exists");
    expect(row.mask_parent == batch_row::causal, "cuda pass: rows are causal");
    expect(row.position / block_tokens < batch.sequences[row.sequence].size(),
           "cuda pass: a row's block is in its sequence's table");
    expect(row.kv_slot < kv_slots, "cuda pass: a row's slot is in the KV cache");
    tokens[r] = row.token;
    tokens[num_rows_ + r] = row.position;
    tokens[2 * num_rows_ + r] = row.kv_slot;
    tokens[3 * num_rows_ + r] = row.sequence;
    most_position_ = std::max(most_position_, row.position);
  }
  auto* tables = tokens + 4 * num_rows_;
  for (std::size_t s = 0; s < num_sequences_; ++s) {
    const auto& table = batch.sequences[s];
    for (const auto block : table)
      expect(block < kv_slots / block_tokens, "cuda pass: blocks are in the KV cache");
    std::copy(table.begin(), table.end(), tables + s * table_width_);
    std::fill(tables + s * table_width_ + table.size(), tables + (s + 1) * table_width_, 0U);
  }
  on.copy_to_device(inputs_.reserve<std::uint32_t>(words), tokens, words * sizeof(std::uint32_t));

  num_items_ = items_of(num_rows_);
  auto* items = host_items_.reserve<row_item>(num_items_);
  cut_into_items(num_rows_, items);
  on.copy_to_device(items_.reserve<row_item>(num_items_), items, num_items_ * sizeof(row_item));
}

void cuda_pass::download_routed(const kernels::cuda::stream& on, std::size_t at, std::size_t hidden,
                                const moe_spec& moe) {
  layer = at;
  waits = true;
  num_experts_ = moe.num_experts;
  row_bytes_ = hidden * sizeof(kernels::bfloat16);
  const auto pairs = num_rows_ * num_topk;
  on.copy_to_host(host_rows_.reserve<std::byte>(num_rows_ * row_bytes_), normed.as<std::byte>(),
                  num_rows_ * row_bytes_);
  auto* table = host_table_.reserve<std::uint32_t>(num_experts_ + 1 + pairs);
  on.copy_to_host(table, offsets.as<std::uint32_t>(), (num_experts_ + 1) * sizeof(std::uint32_t));
  on.copy_to_host(table + num_experts_ + 1, entries.as<std::uint32_t>(), pairs * sizeof(std::uint32_t));
}

void cut_into_items(std::size_t count, row_item* out) {
  for (std::size_t first = 0; first < count; first += kernels::cuda::most_few_rows)
    *out++ = {0, static_cast<std::uint32_t>(first),
              static_cast<std::uint32_t>(std::min(kernels::cuda::most_few_rows, count - first))};
}

} // namespace troupe::model
