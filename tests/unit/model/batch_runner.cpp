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
constexpr std::size_t cache_blocks = 256;

} // namespace

batch_runner::batch_runner(std::unique_ptr<model::compute_backend> backend, std::size_t num_hosts,
                           std::optional<kernels::dtype> kv_type)
    : attention_(backend->load_attention({.kv_type = kv_type, .tables_by_reach = true})) {
  attention_->reserve_kv(block_tokens, cache_blocks);
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

std::uint32_t batch_runner::take_block() {
  if (free_blocks_.empty())
    return next_block_++;
  const auto block = free_blocks_.back();
  free_blocks_.pop_back();
  return block;
}

std::size_t batch_runner::num_blocks() const {
  std::size_t sum = 0;
  for (const auto& [sequence, tables] : tables_)
    for (const auto& table : tables)
      sum += table.blocks.size() - table.first;
  return sum;
}

/// Other sequences write over them.
void batch_runner::give_back_unseen(std::uint32_t sequence) {
  const auto reaches = attention_->kv_reaches();
  auto& tables = tables_[sequence];
  tables.resize(reaches.size());
  const std::size_t position = lengths_[sequence];
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const auto [window, chunk] = reaches[t];
    std::size_t first = 0;
    if (chunk != 0)
      first = position / chunk * chunk;
    else if (window != 0 && position + 1 > window)
      first = position + 1 - window;
    auto& table = tables[t];
    for (; table.first < first / block_tokens; ++table.first)
      free_blocks_.push_back(table.blocks[table.first]);
  }
}

/// Sequences that grow by turns get interleaved blocks.
void batch_runner::grow(std::uint32_t sequence, std::uint32_t length) {
  for (auto& table : tables_[sequence])
    while (table.blocks.size() * block_tokens < length)
      table.blocks.push_back(take_block());
}

void batch_runner::fork(std::uint32_t from, std::uint32_t to) {
  std::vector<model::block_copy> copies;
  for (const auto& table : tables_[from]) {
    auto& copy = tables_[to].emplace_back(table);
    for (auto i = table.first; i < table.blocks.size(); ++i) {
      copy.blocks[i] = take_block();
      copies.push_back({table.blocks[i], copy.blocks[i]});
    }
  }
  lengths_[to] = lengths_[from];
  attention_->copy_blocks(copies);
}

model::pause batch_runner::begin(const std::vector<batch_part>& parts, model::attention_pass& pass) {
  std::vector<model::batch_row> rows;
  std::vector<std::uint32_t> order; // sequences of this micro-batch
  for (const auto& part : parts) {
    auto& length = lengths_[part.sequence];
    const auto found = std::find(order.begin(), order.end(), part.sequence);
    const auto index = static_cast<std::uint32_t>(found - order.begin());
    if (found == order.end()) {
      order.push_back(part.sequence);
      give_back_unseen(part.sequence);
    }
    for (const auto token : part.tokens) {
      grow(part.sequence, length + 1);
      const auto& blocks = tables_[part.sequence].front().blocks;
      rows.push_back(
          {token, length, index, blocks[length / block_tokens] * block_tokens + length % block_tokens});
      ++length;
    }
  }
  std::vector<std::span<const std::uint32_t>> tables;
  const auto num_tables = attention_->kv_reaches().size();
  for (std::size_t t = 0; t < num_tables; ++t)
    for (const auto sequence : order)
      tables.emplace_back(tables_[sequence][t].blocks);
  const std::span<const std::span<const std::uint32_t>> all{tables};
  return attention_->begin({rows, all.first(order.size()), all.subspan(order.size())}, pass);
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
  std::iota(rows.rbegin(), rows.rend(), std::uint32_t{0}); // any order is correct: request backwards
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
