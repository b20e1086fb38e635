#include "tests/unit/model/batch_runner.hpp"

#include "kernels/model/cpu_backend.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

namespace troupe::test {

namespace {

constexpr std::uint32_t block_tokens = 16;
constexpr std::size_t num_blocks = 256;

} // namespace

batch_runner::batch_runner(std::unique_ptr<model::compute_backend> backend, std::size_t num_hosts,
                           std::optional<kernels::dtype> kv_type)
    : attention_(backend->load_attention({.kv_type = kv_type})) {
  attention_->reserve_kv(block_tokens, num_blocks);
  for (std::size_t i = 0; i < num_hosts; ++i)
    hosts_.push_back(backend->make_experts());
  const auto& config = attention_->config();
  for (std::size_t layer = 0; layer < config.num_layers(); ++layer)
    if (const auto* moe = config.layers[layer].moe())
      for (std::size_t expert = 0; expert < moe->num_experts; ++expert)
        hosts_[host_of(expert)]->load(layer, expert);
}

batch_runner::batch_runner(kernels::context& ctx, std::shared_ptr<const model::cpu_weights> weights,
                           std::size_t num_hosts, std::optional<kernels::dtype> kv_type)
    : batch_runner(std::make_unique<model::cpu_backend>(ctx, std::move(weights)), num_hosts, kv_type) {}

void batch_runner::fork(std::uint32_t from, std::uint32_t to) {
  std::vector<model::block_copy> copies;
  for (const auto block : blocks_[from]) {
    copies.push_back({block, next_block_});
    blocks_[to].push_back(next_block_++);
  }
  lengths_[to] = lengths_[from];
  attention_->copy_blocks(copies);
}

model::pause batch_runner::begin(const std::vector<batch_part>& parts, model::attention_pass& pass) {
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
  return attention_->begin({rows, tables}, pass);
}

model::pause batch_runner::step(model::attention_pass& pass, bool overlap) {
  if (overlap)
    attention_->overlap(pass);
  const auto routed = pass.routed();
  const auto row_bytes = kernels::bytes_of(attention_->type(), attention_->config().hidden);
  std::vector<std::byte> inputs(routed.num_rows * row_bytes);
  std::vector<std::byte> outputs(routed.entries.size() * row_bytes);
  pass.read_rows(inputs.data());
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  std::vector<const std::byte*> slot_rows(routed.entries.size());
  for (const auto entry : routed.entries) {
    in.push_back(inputs.data() + entry / routed.num_topk * row_bytes);
    out.push_back(outputs.data() + entry * row_bytes);
    slot_rows[entry] = out.back();
  }
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    std::vector<model::expert_rows> batch;
    for (std::size_t e = 0; e < routed.num_experts; ++e) {
      const auto first = routed.offsets[e];
      if (const auto count = routed.offsets[e + 1] - first; count > 0 && host_of(e) == host)
        batch.push_back({e, std::span{in}.subspan(first, count), std::span{out}.subspan(first, count)});
    }
    if (hosts_[host]->forward(routed.layer, batch))
      throw std::logic_error("an expert is not where it should be");
    // A batch that is sent twice gives the same rows again.
    std::reverse(batch.begin(), batch.end());
    hosts_[host]->forward(routed.layer, batch);
  }
  return attention_->resume(slot_rows, pass);
}

batch_logits batch_runner::logits(model::attention_pass& pass, std::size_t num_rows) {
  const auto vocab = attention_->config().vocab_size;
  std::vector<std::uint32_t> rows(num_rows);
  std::iota(rows.rbegin(), rows.rend(), std::uint32_t{0}); // any order is right: ask backwards
  std::vector<float> flat(rows.size() * vocab);
  attention_->logits(pass, rows, kernels::view_of(flat.data(), rows.size(), vocab));
  batch_logits result(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto first = flat.begin() + static_cast<std::ptrdiff_t>(i * vocab);
    result[rows[i]].assign(first, first + static_cast<std::ptrdiff_t>(vocab));
  }
  return result;
}

batch_logits batch_runner::run(const std::vector<batch_part>& parts) {
  const auto pass = make_pass();
  std::size_t num_rows = 0;
  for (const auto& part : parts)
    num_rows += part.tokens.size();
  auto why = begin(parts, *pass);
  while (why == model::pause::experts)
    why = step(*pass);
  return logits(*pass, num_rows);
}

} // namespace troupe::test
