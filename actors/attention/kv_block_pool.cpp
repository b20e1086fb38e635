#include "actors/attention/kv_block_pool.hpp"

#include <cstdio>
#include <cstdlib>

namespace troupe {

kv_block_pool::kv_block_pool(std::uint32_t num_blocks) : blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (auto block = num_blocks; block > 0; --block)
    free_.push_back(block - 1);
}

bool kv_block_pool::grow(block_table& table, std::uint32_t count) {
  if (count > num_free())
    return false;
  for (std::uint32_t i = 0; i < count; ++i)
    table.push_back(take());
  return true;
}

void kv_block_pool::release(block_table& table) {
  for (; !table.empty(); table.pop_back())
    give_back(table.back());
}

void kv_block_pool::release(const block_table& table, std::uint32_t first, std::uint32_t end) {
  for (auto i = end; i > first; --i)
    give_back(table.at(i - 1));
}

block_table kv_block_pool::fork(const block_table& table, std::uint32_t first) {
  for (std::size_t i = first; i < table.size(); ++i)
    ++blocks_.at(table[i]).references;
  return table;
}

bool kv_block_pool::make_writable(block_table& table, std::uint32_t index, std::optional<block_copy>& copy) {
  copy.reset();
  auto& slot = table.at(index);
  if (references(slot) == 1) {
    blocks_[slot].content_hash = 0;
    return true;
  }
  if (free_.empty())
    return false;
  copy = block_copy{slot, take()};
  give_back(slot);
  slot = copy->to;
  return true;
}

void kv_block_pool::name_content(std::uint32_t block, std::uint64_t content_hash) {
  blocks_.at(block).content_hash = content_hash;
}

std::uint32_t kv_block_pool::take() {
  const auto block = free_.back();
  free_.pop_back();
  blocks_[block] = {1, 0};
  return block;
}

void kv_block_pool::give_back(std::uint32_t block) {
  auto& state = blocks_.at(block);
  if (state.references == 0) {
    std::fprintf(stderr, "kv_block_pool: block %u is released and nobody holds it\n", block);
    std::abort();
  }
  if (--state.references == 0)
    free_.push_back(block);
}

} // namespace troupe
