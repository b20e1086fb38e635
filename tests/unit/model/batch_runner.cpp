#include "tests/unit/model/batch_runner.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace troupe::test {

namespace {

constexpr std::size_t num_blocks = 256;

std::shared_ptr<const model::weight_source> open(const std::filesystem::path& folder, kernels::dtype type,
                                                 const model::quantization& quant) {
  auto config = model::load_config(folder);
  auto weights = std::make_shared<model::checkpoint>(model::checkpoint::open(folder));
  weights->match(config);
  return std::make_shared<const model::checkpoint_source>(std::move(weights), std::move(config), type, quant);
}

} // namespace

batch_runner::batch_runner(const std::filesystem::path& folder, kernels::dtype type, std::size_t num_hosts,
                           const model::quantization& quant, std::optional<kernels::dtype> kv_type)
    : batch_runner(open(folder, type, quant), num_hosts, kv_type) {}

batch_runner::batch_runner(std::shared_ptr<const model::weight_source> weights, std::size_t num_hosts,
                           std::optional<kernels::dtype> kv_type)
    : weights_(std::move(weights)),
      config_(weights_->config()),
      dense_(model::dense_model::load(weights_, {.kv_type = kv_type})),
      cache_(dense_.kv_config(), num_blocks) {
  for (std::size_t i = 0; i < num_hosts; ++i)
    stores_.push_back(std::make_unique<model::expert_store>(weights_));
  for (std::size_t layer = 0; layer < config_.num_layers(); ++layer)
    if (const auto* moe = config_.layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        stores_[host_of(expert)]->load(layer, expert);
}

model::pause batch_runner::begin(kernels::context& ctx, const std::vector<batch_part>& parts,
                                 model::forward_state& state) {
  const auto block_tokens = static_cast<std::uint32_t>(cache_.config().block_tokens);
  std::vector<model::batch_row> rows;
  std::vector<std::uint32_t> order; // sequences of this micro-batch
  for (const auto& part : parts) {
    auto& blocks = blocks_[part.sequence];
    auto& length = lengths_[part.sequence];
    const auto found = std::find(order.begin(), order.end(), part.sequence);
    const auto index = static_cast<std::uint32_t>(found - order.begin());
    if (found == order.end())
      order.push_back(part.sequence);
    for (const auto token : part.tokens) {
      if (length == blocks.size() * block_tokens)
        blocks.push_back(next_block_++); // sequences that grow by turns get interleaved blocks
      rows.push_back(
          {token, length, index, blocks[length / block_tokens] * block_tokens + length % block_tokens});
      ++length;
    }
  }
  std::vector<std::span<const std::uint32_t>> tables;
  for (const auto sequence : order)
    tables.emplace_back(blocks_[sequence]);
  return dense_.begin(ctx, cache_, {rows, tables}, state);
}

model::pause batch_runner::step(kernels::context& ctx, model::forward_state& state, bool overlap) {
  if (overlap)
    dense_.overlap(ctx, state);
  const auto normed = state.normed();
  const auto num_topk = state.num_topk();
  const auto entries = state.expert_entries();
  const auto offsets = state.expert_offsets();
  kernels::tensor outputs(dense_.type(), entries.size(), config_.hidden);
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<const std::byte*> slot_rows(entries.size());
  for (const auto entry : entries) {
    in.push_back(normed.row(entry / num_topk));
    out.push_back(outputs.view().row(entry));
    slot_rows[entry] = out.back();
  }
  for (std::size_t host = 0; host < stores_.size(); ++host) {
    std::vector<model::expert_rows> batch;
    for (std::size_t e = 0; e < state.num_experts(); ++e)
      if (const auto count = offsets[e + 1] - offsets[e]; count > 0 && host_of(e) == host)
        batch.push_back(
            {e, std::span{in}.subspan(offsets[e], count), std::span{out}.subspan(offsets[e], count)});
    if (stores_[host]->forward(ctx, state.layer(), batch))
      throw std::logic_error("an expert is not where it should be");
    // A batch that is sent twice gives the same rows again.
    std::reverse(batch.begin(), batch.end());
    stores_[host]->forward(ctx, state.layer(), batch);
  }
  return dense_.resume(ctx, cache_, slot_rows, state);
}

batch_logits batch_runner::logits(kernels::context& ctx, model::forward_state& state) {
  std::vector<std::uint32_t> rows(state.num_rows());
  std::iota(rows.rbegin(), rows.rend(), std::uint32_t{0}); // any order is right: ask backwards
  std::vector<float> flat(rows.size() * config_.vocab_size);
  dense_.logits(ctx, state, rows, kernels::view_of(flat.data(), rows.size(), config_.vocab_size));
  batch_logits result(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto first = flat.begin() + static_cast<std::ptrdiff_t>(i * config_.vocab_size);
    result[rows[i]].assign(first, first + static_cast<std::ptrdiff_t>(config_.vocab_size));
  }
  return result;
}

batch_logits batch_runner::run(kernels::context& ctx, const std::vector<batch_part>& parts) {
  model::forward_state state;
  auto why = begin(ctx, parts, state);
  while (why == model::pause::experts)
    why = step(ctx, state);
  return logits(ctx, state);
}

} // namespace troupe::test
