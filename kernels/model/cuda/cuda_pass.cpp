#include "kernels/model/cuda/cuda_pass.hpp"

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/head_products.hpp"
#include "kernels/error.hpp"
#include "kernels/model/cuda/decode_buckets.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace troupe::model {

using kernels::expect;
using kernels::cuda::row_item;
using kernels::cuda::row_run;

namespace {

// Widths of block tables are this times 1, 2, 4, 8, …: each width needs graphs of its own, and unused entries
// cost nothing.
constexpr std::size_t width_step = 16;

bool has_one_row_a_sequence(const micro_batch& batch) {
  std::vector<std::size_t> rows_of(batch.sequences.size());
  for (const auto& row : batch.rows)
    if (row.sequence < rows_of.size())
      ++rows_of[row.sequence];
  return std::all_of(rows_of.begin(), rows_of.end(), [](std::size_t rows) { return rows == 1; });
}

} // namespace

std::uint64_t cuda_pass::next_number() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

void cuda_pass::add_addresses(std::vector<const std::byte*>& to) const {
  for (const auto* memory : {&residual, &normed, &mlp_output, &router_logits, &chosen, &weights, &offsets,
                             &entries, &weighted, &answers, &inputs_, &items_, &head_items_, &device_runs_})
    to.push_back(memory->address());
  for (const auto* memory : {&given_, &host_rows_, &host_table_})
    to.push_back(memory->address());
}

routed_rows cuda_pass::routed() const {
  const auto* table = host_table_.as<std::uint32_t>();
  const auto experts = progress.num_experts;
  return {.layer = progress.layer,
          .num_rows = num_given_rows_,
          .num_topk = progress.num_topk,
          .num_experts = experts,
          .offsets = {table, experts + 1},
          .entries = {table + experts + 1, num_given_rows_ * progress.num_topk},
          .router_ns = progress.router_ns};
}

void cuda_pass::read_rows(std::byte* out) const {
  std::memcpy(out, host_rows_.as<std::byte>(), num_given_rows_ * progress.row_bytes);
}

void cuda_pass::assign(const kernels::cuda::stream& on, const micro_batch& batch, std::size_t block_tokens,
                       std::size_t kv_slots, std::size_t most_run_rows, std::size_t latent_heads, bool pads) {
  expect(!batch.rows.empty(), "cuda pass: a micro-batch has rows");
  num_given_rows_ = batch.rows.size();
  is_decode_step_ = has_one_row_a_sequence(batch) && num_given_rows_ <= most_graph_rows;
  num_rows_ = is_decode_step_ && pads ? decode_bucket(num_given_rows_) : num_given_rows_;
  const auto padding = num_rows_ - num_given_rows_;
  expect(padding <= block_tokens, "cuda pass: slots of padding are in one block");
  num_sequences_ = batch.sequences.size() + padding;
  table_width_ = 0;
  for (const auto& table : batch.sequences)
    table_width_ = std::max(table_width_, table.size());
  table_width_ = std::bit_ceil(std::max(table_width_, width_step));
  most_position_ = 0;
  progress = {};

  const auto words = 3 * num_rows_ + num_sequences_ * table_width_;
  auto* tokens = host_inputs_.reserve<std::uint32_t>(words);
  std::vector<std::uint32_t> sequences(num_rows_);
  for (std::size_t r = 0; r < num_given_rows_; ++r) {
    const auto& row = batch.rows[r];
    expect(row.sequence < batch.sequences.size(), "cuda pass: sequence of a row exists");
    expect(row.position / block_tokens < batch.sequences[row.sequence].size(),
           "cuda pass: a row's block is in its sequence's table");
    expect(row.kv_slot < kv_slots, "cuda pass: a row's slot is in the KV cache");
    tokens[r] = row.token;
    tokens[num_rows_ + r] = row.position;
    tokens[2 * num_rows_ + r] = row.kv_slot;
    sequences[r] = row.sequence;
    most_position_ = std::max(most_position_, row.position);
  }
  // Padding: token 0 at position 0 of sequences whose only block is the last one of the cache. Each sees the
  // key in that block's first slot.
  for (std::size_t i = 0; i < padding; ++i) {
    const auto r = num_given_rows_ + i;
    tokens[r] = 0;
    tokens[num_rows_ + r] = 0;
    tokens[2 * num_rows_ + r] = static_cast<std::uint32_t>(kv_slots + i);
    sequences[r] = static_cast<std::uint32_t>(batch.sequences.size() + i);
  }
  // The last position of 1, 2, 4, … spans: more thread blocks are started, and those without a row end at
  // once.
  const auto spans = std::bit_ceil(kernels::cuda::spans_of(most_position_));
  most_position_ = static_cast<std::uint32_t>(spans * kernels::cuda::span_keys - 1);
  auto* tables = tokens + 3 * num_rows_;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    const auto& table = batch.sequences[s];
    for (const auto block : table)
      expect(block < kv_slots / block_tokens, "cuda pass: blocks are in the KV cache");
    std::copy(table.begin(), table.end(), tables + s * table_width_);
    std::fill(tables + s * table_width_ + table.size(), tables + (s + 1) * table_width_, 0U);
  }
  std::fill(tables + batch.sequences.size() * table_width_, tables + num_sequences_ * table_width_,
            static_cast<std::uint32_t>(kv_slots / block_tokens));
  on.copy_to_device(inputs_.reserve<std::uint32_t>(words), tokens, words * sizeof(std::uint32_t));

  runs_ = kernels::cuda::runs_of(sequences, {tokens + num_rows_, num_rows_}, most_run_rows);
  auto* runs = host_runs_.reserve<row_run>(runs_.size());
  std::copy(runs_.begin(), runs_.end(), runs);
  on.copy_to_device(device_runs_.reserve<row_run>(runs_.size()), runs, runs_.size() * sizeof(row_run));

  num_items_ = items_of(num_rows_);
  auto* items = host_items_.reserve<row_item>(num_items_);
  cut_into_items(num_rows_, items);
  on.copy_to_device(items_.reserve<row_item>(num_items_), items, num_items_ * sizeof(row_item));

  const auto of_heads =
      kernels::cuda::head_items(latent_heads, num_rows_, kernels::cuda::item_rows_for(num_rows_));
  num_head_items_ = of_heads.size();
  if (of_heads.empty())
    return;
  auto* head_items = host_head_items_.reserve<row_item>(num_head_items_);
  std::copy(of_heads.begin(), of_heads.end(), head_items);
  on.copy_to_device(head_items_.reserve<row_item>(num_head_items_), head_items,
                    num_head_items_ * sizeof(row_item));
}

void cuda_pass::download_routed(const kernels::cuda::stream& on, const route_op& route) {
  const auto& moe = route.experts;
  progress.waits = true;
  progress.num_experts = moe.num_experts;
  progress.row_bytes = moe.hidden * sizeof(kernels::bfloat16);
  const auto pairs = num_rows_ * progress.num_topk;
  const auto num_bytes = num_rows_ * progress.row_bytes;
  on.copy_to_host(host_rows_.reserve<std::byte>(num_bytes),
                  (route.weighs_input ? weighted : normed).as<std::byte>(), num_bytes);
  const auto num_offsets = moe.num_experts + 1;
  auto* table = host_table_.reserve<std::uint32_t>(num_offsets + pairs);
  on.copy_to_host(table, offsets.as<std::uint32_t>(), num_offsets * sizeof(std::uint32_t));
  on.copy_to_host(table + num_offsets, entries.as<std::uint32_t>(), pairs * sizeof(std::uint32_t));
}

void cuda_pass::forget_padding() {
  if (num_rows_ == num_given_rows_)
    return;
  auto* offsets_on_host = host_table_.as<std::uint32_t>();
  auto* entries_on_host = offsets_on_host + progress.num_experts + 1;
  const auto first_of_padding = num_given_rows_ * progress.num_topk;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  for (std::size_t e = 0; e < progress.num_experts; ++e) {
    for (const auto end = offsets_on_host[e + 1]; from < end; ++from)
      if (entries_on_host[from] < first_of_padding)
        entries_on_host[to++] = entries_on_host[from];
    offsets_on_host[e + 1] = to;
  }
}

const std::byte* cuda_pass::gather_answers(std::span<const std::byte* const> slot_rows) {
  const auto row_bytes = progress.row_bytes;
  const auto pairs = num_rows_ * progress.num_topk;
  auto* rows = given_.reserve<std::byte>(pairs * row_bytes);
  for (std::size_t i = 0; i < slot_rows.size(); ++i)
    std::memcpy(rows + i * row_bytes, slot_rows[i], row_bytes);
  std::memset(rows + slot_rows.size() * row_bytes, 0, (pairs - slot_rows.size()) * row_bytes);
  return rows;
}

void cut_into_items(std::size_t count, row_item* out) {
  const auto at_once = kernels::cuda::item_rows_for(count);
  for (std::size_t first = 0; first < count; first += at_once)
    *out++ = {0, static_cast<std::uint32_t>(first),
              static_cast<std::uint32_t>(std::min(at_once, count - first))};
}

} // namespace troupe::model
