#include "actors/attention/kv_store.hpp"

#include <cstdio>
#include <cstdlib>

namespace troupe {

kv_store::kv_store(std::uint32_t num_blocks, bool retains) : retains_(retains), blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (auto block = num_blocks; block > 0; --block)
    free_.push_back(block - 1);
}

bool kv_store::grow(block_table& table, std::uint32_t count) {
  if (count > num_available())
    return false;
  for (std::uint32_t i = 0; i < count; ++i)
    table.push_back(take());
  return true;
}

void kv_store::release(const block_table& table, std::uint32_t first, std::uint32_t end) {
  for (auto i = end; i > first; --i)
    give_back(table.at(i - 1));
}

block_table kv_store::fork(const block_table& table, std::uint32_t first) {
  for (std::size_t i = first; i < table.size(); ++i)
    ++blocks_.at(table[i]).references;
  return table;
}

bool kv_store::make_writable(block_table& table, std::uint32_t index, std::optional<block_copy>& copy) {
  copy.reset();
  auto& slot = table.at(index);
  if (references(slot) == 1) {
    forget(slot);
    return true;
  }
  if (num_available() == 0)
    return false;
  copy = block_copy{slot, take()};
  give_back(slot);
  slot = copy->to;
  return true;
}

void kv_store::name(std::uint32_t block, const content_name& content) {
  auto& state = blocks_.at(block);
  if (state.content || !index_.emplace(content, block).second)
    return;
  state.content = content;
  ++revision_;
}

std::optional<std::uint32_t> kv_store::find(const content_name& content) const {
  const auto found = index_.find(content);
  return found == index_.end() ? std::nullopt : std::optional{found->second};
}

void kv_store::hold(block_table& table, std::uint32_t block) {
  if (blocks_.at(block).references++ == 0)
    unlink(block);
  table.push_back(block);
}

std::uint32_t kv_store::take() {
  if (free_.empty()) {
    const auto evicted = oldest_;
    unlink(evicted);
    forget(evicted);
    free_.push_back(evicted);
  }
  const auto block = free_.back();
  free_.pop_back();
  blocks_[block].references = 1;
  return block;
}

void kv_store::give_back(std::uint32_t block) {
  auto& state = blocks_.at(block);
  if (state.references == 0) {
    std::fprintf(stderr, "kv_store: block %u is released and nobody holds it\n", block);
    std::abort();
  }
  if (--state.references > 0)
    return;
  if (!retains_)
    forget(block);
  if (state.content)
    retain(block);
  else
    free_.push_back(block);
}

void kv_store::retain(std::uint32_t block) {
  blocks_[block].before = newest_;
  (newest_ == none ? oldest_ : blocks_[newest_].after) = block;
  newest_ = block;
  ++num_retained_;
}

void kv_store::unlink(std::uint32_t block) {
  auto& [references, before, after, content] = blocks_[block];
  (before == none ? oldest_ : blocks_[before].after) = after;
  (after == none ? newest_ : blocks_[after].before) = before;
  before = after = none;
  --num_retained_;
}

void kv_store::forget(std::uint32_t block) {
  auto& content = blocks_[block].content;
  if (!content)
    return;
  index_.erase(*content);
  content.reset();
  ++revision_;
}

} // namespace troupe
