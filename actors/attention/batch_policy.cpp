#include "actors/attention/batch_policy.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {

batch_policy::batch_policy(limits config)
    : limits_(config),
      max_positions_(static_cast<uint32_t>(
          std::min<uint64_t>(config.max_model_len, uint64_t{config.num_blocks} * config.block_tokens))),
      pool_(config.num_blocks) {}

ec batch_policy::add(key name, uint32_t num_tokens, int32_t priority, common_prefix prefix) {
  if (num_tokens == 0 || num_tokens >= max_positions_)
    return ec::context_exceeded;
  if (waiting_.size() >= limits_.max_waiting)
    return ec::overloaded;
  progress added;
  added.priority = priority;
  added.num_tokens = num_tokens;
  added.prefix = prefix;
  sequences_.emplace(name, std::move(added));
  waiting_.emplace(priority, name);
  return ec::none;
}

batch_policy::plan batch_policy::next(uint32_t max_sequences) {
  plan result;
  auto budget = limits_.max_num_batched_tokens;
  const auto full = [&] { return budget == 0 || result.slices.size() >= max_sequences; };
  // A preemption takes ranks behind the present one out of the set: iterate by rank, not by iterator.
  for (auto i = running_.begin(); i != running_.end() && !full();) {
    const auto present = *i;
    auto& s = sequences_.at(present.second);
    if (s.rows_in_flight == 0 && s.num_tokens - s.num_computed == 1) {
      const auto missing = blocks_for(s.num_tokens) - static_cast<uint32_t>(s.blocks.size());
      auto fits = pool_.grow(s.blocks, missing);
      while (!fits && make_room(present, result)) // who shared all its blocks has freed none
        fits = pool_.grow(s.blocks, missing);
      if (fits)
        take(present.second, s, budget, result);
    }
    i = running_.upper_bound(present);
  }
  for (auto i = running_.begin(); i != running_.end() && !full(); ++i) {
    auto& s = sequences_.at(i->second);
    if (s.rows_in_flight == 0 && s.num_tokens - s.num_computed > 1)
      take(i->second, s, budget, result);
  }
  // In order of rank: a long prompt that does not fit yet is not overtaken for ever by short ones.
  for (auto i = waiting_.begin(); i != waiting_.end() && !full() && running_.size() < limits_.max_num_seqs;) {
    const auto head = *i;
    auto& s = sequences_.at(head.second);
    const auto found = find_prefix(s);
    if (found.owner != nullptr) {
      const auto& blocks = found.owner->blocks;
      s.blocks = pool_.fork({blocks.begin(), blocks.begin() + found.num_tokens / limits_.block_tokens});
      s.num_computed = found.num_tokens;
    } else if (found.is_under_way) {
      ++i;
      continue;
    }
    if (!take_blocks(s)) {
      pool_.release(s.blocks);
      s.num_computed = 0;
      break;
    }
    waiting_.erase(i);
    running_.insert(head);
    take(head.second, s, budget, result);
    put_back_behind(head);
    i = waiting_.upper_bound(head);
  }
  return result;
}

batch_policy::prefix_search batch_policy::find_prefix(const progress& s) const {
  // Full blocks only, and never the last token: its row is computed to sample the next one.
  prefix_search result;
  result.num_tokens =
      std::min(s.prefix.num_tokens, s.num_tokens - 1) / limits_.block_tokens * limits_.block_tokens;
  if (result.num_tokens == 0)
    return result;
  for (const auto& [priority, name] : running_) {
    const auto& other = sequences_.at(name);
    if (other.prefix.group != s.prefix.group || other.prefix.num_tokens < result.num_tokens)
      continue;
    if (other.num_computed >= result.num_tokens)
      result.owner = &other;
    else
      result.is_under_way = true;
  }
  return result;
}

void batch_policy::complete(key name, bool appended) {
  auto& s = sequences_.at(name);
  s.num_computed += s.rows_in_flight;
  s.rows_in_flight = 0;
  if (appended)
    ++s.num_tokens;
}

void batch_policy::remove(key name) {
  const auto i = sequences_.find(name);
  if (i == sequences_.end())
    return;
  auto& s = i->second;
  pool_.release(s.blocks);
  running_.erase({s.priority, name});
  waiting_.erase({s.priority, name});
  sequences_.erase(i);
}

size_t batch_policy::ready() const {
  const auto seats = limits_.max_num_seqs > running_.size() ? limits_.max_num_seqs - running_.size() : 0;
  return running_.size() - flying() + std::min(waiting_.size(), seats);
}

size_t batch_policy::flying() const {
  // Whatever is in flight is left alone, and so it still runs.
  return static_cast<size_t>(std::count_if(running_.begin(), running_.end(), [this](const rank& entry) {
    return sequences_.at(entry.second).rows_in_flight > 0;
  }));
}

uint32_t batch_policy::blocks_for(uint32_t num_tokens) const {
  return (num_tokens + limits_.block_tokens - 1) / limits_.block_tokens;
}

/// Blocks that must be free beside its own for a sequence to start: those that run take the next ones soon.
uint32_t batch_policy::headroom_of(const progress& s) const {
  if (s.num_preempted == 0)
    return 0;
  const auto doublings = std::min(s.num_preempted - 1, 31U);
  const auto wanted = uint64_t{running_.size()} << doublings;
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, limits_.num_blocks));
}

/// Gives a waiting sequence the blocks that its known tokens take, if they are free. @returns whether it did
bool batch_policy::take_blocks(progress& s) {
  const auto missing = blocks_for(s.num_tokens) - static_cast<uint32_t>(s.blocks.size());
  return uint64_t{missing} + headroom_of(s) <= pool_.num_free() && pool_.grow(s.blocks, missing);
}

bool batch_policy::make_room(const rank& wanting, plan& result) {
  for (auto i = running_.rbegin(); i != running_.rend() && *i > wanting; ++i)
    if (sequences_.at(i->second).rows_in_flight == 0) {
      preempt(*i, wanting, result);
      return true;
    }
  return false;
}

void batch_policy::preempt(rank victim, const rank& wanting, plan& result) {
  auto& s = sequences_.at(victim.second);
  pool_.release(s.blocks);
  result.preempted.push_back({victim.second, s.num_computed});
  s.num_computed = 0;
  ++s.num_preempted;
  running_.erase(victim);
  waiting_.insert(victim);
  if (wanting.first < victim.first)
    put_back(victim, wanting.first);
}

/// Waiting sequences that have lost their blocks see a later one start before them, as it is more urgent.
void batch_policy::put_back_behind(const rank& started) {
  std::vector<rank> passed;
  for (auto i = waiting_.upper_bound(started); i != waiting_.end(); ++i)
    if (i->first > started.first && i->second < started.second && sequences_.at(i->second).num_preempted > 0)
      passed.push_back(*i);
  for (const auto& one : passed)
    put_back(one, started.first);
}

/// Once more behind one of this priority; when that has been often enough it waits no longer than that.
void batch_policy::put_back(const rank& waiting, int32_t behind) {
  auto& s = sequences_.at(waiting.second);
  if (++s.num_put_back < defaults::max_put_back)
    return;
  waiting_.erase(waiting);
  s.priority = behind;
  waiting_.emplace(s.priority, waiting.second);
}

void batch_policy::take(key name, progress& s, uint32_t& budget, plan& result) {
  const auto remaining = s.num_tokens - s.num_computed;
  s.rows_in_flight = std::min(remaining, budget);
  budget -= s.rows_in_flight;
  result.slices.push_back({name, s.num_computed, s.rows_in_flight, s.rows_in_flight == remaining});
}

} // namespace troupe
