#include "actors/attention/batch_policy.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

batch_policy::batch_policy(limits config)
    : limits_(std::move(config)),
      needs_(limits_.reaches, limits_.block_tokens, limits_.max_num_batched_tokens),
      max_positions_(needs_.longest(limits_.num_blocks, limits_.max_model_len)),
      capacity_(needs_.capacity(limits_.num_blocks, limits_.max_num_seqs, limits_.max_model_len)),
      store_(limits_.num_blocks, limits_.retains) {}

std::uint64_t batch_policy::tokens_used() const {
  return limits_.num_blocks == 0 ? 0 : store_.num_held() * capacity_ / limits_.num_blocks;
}

ec batch_policy::add(key name, std::uint32_t num_tokens, std::int32_t priority, names prefixes,
                     bool computes_all) {
  if (num_tokens == 0 || num_tokens >= max_positions_)
    return ec::context_exceeded;
  if (waiting_.size() >= limits_.max_waiting)
    return ec::overloaded;
  progress added;
  added.priority = priority;
  added.num_tokens = num_tokens;
  added.prefixes = std::move(prefixes);
  added.computes_all = computes_all;
  added.tables = std::make_shared<std::vector<block_table>>(needs_.num_tables());
  added.first.resize(needs_.num_tables());
  sequences_.emplace(name, std::move(added));
  waiting_.emplace(priority, name);
  return ec::none;
}

batch_policy::plan batch_policy::next(std::uint32_t max_sequences) {
  plan result;
  auto budget = limits_.max_num_batched_tokens;
  const auto full = [&] { return budget == 0 || result.slices.size() >= max_sequences; };
  // A preemption erases later ranks from the set: iterate by rank, not by iterator.
  for (auto i = running_.begin(); i != running_.end() && !full();) {
    const auto present = *i;
    auto& s = sequences_.at(present.second);
    if (s.rows_in_flight == 0 && s.num_tokens - s.num_computed == 1
        && take_blocks(present, s, s.num_tokens, result))
      take(present.second, s, budget, result);
    i = running_.upper_bound(present);
  }
  for (auto i = running_.begin(); i != running_.end() && !full();) {
    const auto present = *i;
    auto& s = sequences_.at(present.second);
    const auto remaining = s.num_tokens - s.num_computed;
    if (s.rows_in_flight == 0 && remaining > 1
        && take_blocks(present, s, s.num_computed + std::min(remaining, budget), result))
      take(present.second, s, budget, result);
    i = running_.upper_bound(present);
  }
  // In order of rank, so that short prompts cannot starve a long one that does not fit yet.
  for (auto i = waiting_.begin(); i != waiting_.end() && !full() && running_.size() < limits_.max_num_seqs;) {
    const auto head = *i;
    auto& s = sequences_.at(head.second);
    if (is_waiting_for_prefix(s)) {
      ++i;
      continue;
    }
    const auto num_cached = find_prefix(s);
    if (wait_for_prefix(s, num_cached)) {
      ++i;
      continue;
    }
    share(num_cached, s);
    if (!take_blocks(s)) {
      release(s);
      s.num_computed = 0;
      break;
    }
    waiting_.erase(i);
    running_.insert(head);
    result.started.push_back({head.second, s.num_tokens, num_cached});
    take(head.second, s, budget, result);
    put_back_behind(head);
    i = waiting_.upper_bound(head);
  }
  return result;
}

kv_store::content_name batch_policy::name_of(const progress& s, std::uint32_t num_tokens,
                                             std::size_t table) const {
  return {s.prefixes->name_of(num_tokens), num_tokens, static_cast<std::uint32_t>(table)};
}

/// Does the store have the blocks of a table from `first` on, of the first `num_tokens` tokens?
bool batch_policy::has_blocks(const progress& s, std::size_t table, std::uint32_t first,
                              std::uint32_t num_tokens) const {
  // The last one is the most likely to be missing: sequences part ways, and what was given back first goes
  // first.
  for (auto end = num_tokens; end > first * limits_.block_tokens; end -= limits_.block_tokens)
    if (!store_.find(name_of(s, end, table)))
      return false;
  return true;
}

/// The longest beginning of a sequence that the store has: of a table without a window all blocks, else those
/// that the next row sees. Never the last known token, whose row must be computed to sample the next one.
std::uint32_t batch_policy::find_prefix(const progress& s) const {
  if (!s.prefixes || s.computes_all)
    return 0;
  const auto step = limits_.block_tokens;
  auto longest = (s.num_tokens - 1) / step * step;
  std::vector<std::size_t> with_window;
  for (std::size_t t = 0; t < needs_.num_tables(); ++t) {
    if (needs_.first_seen(t, longest) > 0) {
      with_window.push_back(t);
      continue;
    }
    std::uint32_t end = 0;
    while (end < longest && store_.find(name_of(s, end + step, t)))
      end += step;
    longest = end;
  }
  const auto has = [&](std::size_t t) { return has_blocks(s, t, needs_.first_seen(t, longest), longest); };
  while (longest > 0 && !std::all_of(with_window.begin(), with_window.end(), has))
    longest -= step;
  return longest;
}

/// Looks for a running sequence that computes the block behind the first `num_tokens` tokens of this one; if
/// there is one, this one waits until it has computed all that they have in common. @returns whether it waits
bool batch_policy::wait_for_prefix(progress& s, std::uint32_t num_tokens) const {
  s.waits_for.reset();
  const auto step = limits_.block_tokens;
  if (!s.prefixes || s.computes_all || num_tokens + step >= s.num_tokens)
    return false;
  const auto is_common = [&](const progress& other, std::uint32_t end) {
    return other.prefixes->name_of(end) == s.prefixes->name_of(end);
  };
  for (const auto& [priority, name] : running_) {
    const auto& other = sequences_.at(name);
    auto low = num_tokens + step;
    if (!other.prefixes || other.num_computed >= low || other.num_tokens < low || !is_common(other, low))
      continue;
    auto high = (std::min(s.num_tokens - 1, other.num_tokens) - low) / step; // blocks behind `low`
    for (std::uint32_t known = 0; known < high;) { // that they have so many in common
      const auto middle = known + (high - known + 1) / 2;
      if (is_common(other, low + middle * step))
        known = middle;
      else
        high = middle - 1;
    }
    s.waits_for = {name, low + high * step};
    return true;
  }
  return false;
}

bool batch_policy::is_waiting_for_prefix(const progress& s) const {
  if (!s.waits_for)
    return false;
  const auto& [name, num_tokens] = *s.waits_for;
  const auto found = sequences_.find(name);
  return found != sequences_.end() && running_.contains({found->second.priority, name})
         && found->second.num_computed < num_tokens;
}

void batch_policy::complete(key name, bool appended) {
  auto& s = sequences_.at(name);
  name_blocks(s, s.num_computed / limits_.block_tokens,
              (s.num_computed + s.rows_in_flight) / limits_.block_tokens);
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
  release(s);
  running_.erase({s.priority, name});
  waiting_.erase({s.priority, name});
  sequences_.erase(i);
}

std::size_t batch_policy::ready() const {
  const auto seats = limits_.max_num_seqs > running_.size() ? limits_.max_num_seqs - running_.size() : 0;
  return running_.size() - flying() + std::min(waiting_.size(), seats);
}

std::size_t batch_policy::flying() const {
  // Whatever is in flight is left alone, and so it still runs.
  return static_cast<std::size_t>(std::count_if(running_.begin(), running_.end(), [this](const rank& entry) {
    return sequences_.at(entry.second).rows_in_flight > 0;
  }));
}

/// Blocks that must be free beside its own for a sequence to start: those that run take the next ones soon.
std::uint32_t batch_policy::headroom_of(const progress& s) const {
  if (s.num_preempted == 0)
    return 0;
  const auto doublings = std::min(s.num_preempted - 1, 31U);
  const auto wanted = std::uint64_t{running_.size()} * needs_.num_tables() << doublings;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, limits_.num_blocks));
}

/// Lengthens each table to its number of blocks, if so many are free beside `headroom`. @returns whether it
/// did
bool batch_policy::grow(progress& s, const std::vector<std::uint32_t>& ends, std::uint32_t headroom) {
  const auto missing = [&](std::size_t t) {
    const auto held = static_cast<std::uint32_t>((*s.tables)[t].size());
    return ends[t] - std::min(ends[t], held);
  };
  std::uint64_t sum = 0;
  for (std::size_t t = 0; t < ends.size(); ++t)
    sum += missing(t);
  if (sum + headroom > store_.num_available())
    return false;
  for (std::size_t t = 0; t < ends.size(); ++t)
    store_.grow((*s.tables)[t], missing(t));
  return true;
}

/// Gives a waiting sequence the blocks that its known tokens take, if they are free: of a table with a window
/// as many as every step needs. @returns whether it did
bool batch_policy::take_blocks(progress& s) {
  std::vector<std::uint32_t> ends;
  for (std::size_t t = 0; t < needs_.num_tables(); ++t)
    ends.push_back(std::min(needs_.blocks_of(s.num_tokens),
                            needs_.first_kept(t, s.num_computed) + needs_.most_of(t, s.num_tokens)));
  return grow(s, ends, headroom_of(s));
}

/// Gives a running sequence the blocks of its tokens up to `num_tokens`, in place of those that its windows
/// have passed, and preempts lower ranks for them. @returns whether it did
bool batch_policy::take_blocks(const rank& present, progress& s, std::uint32_t num_tokens, plan& result) {
  for (std::size_t t = 0; t < needs_.num_tables(); ++t) {
    if (const auto first = needs_.first_kept(t, s.num_computed); first > s.first[t]) {
      store_.release((*s.tables)[t], s.first[t], first);
      s.first[t] = first;
    }
  }
  const std::vector<std::uint32_t> ends(needs_.num_tables(), needs_.blocks_of(num_tokens));
  auto fits = grow(s, ends, 0);
  while (!fits && make_room(present, result)) // a victim that shared all its blocks has freed none
    fits = grow(s, ends, 0);
  return fits;
}

/// Lets a sequence that starts use the blocks of its first `num_tokens` tokens, which the store has.
void batch_policy::share(std::uint32_t num_tokens, progress& s) {
  for (std::size_t t = 0; t < needs_.num_tables(); ++t) {
    auto& table = (*s.tables)[t];
    s.first[t] = needs_.first_seen(t, num_tokens);
    table.assign(s.first[t], 0);
    for (auto end = s.first[t] * limits_.block_tokens; end < num_tokens;)
      store_.hold(table, *store_.find(name_of(s, end += limits_.block_tokens, t)));
  }
  s.num_computed = num_tokens;
}

/// Names blocks [first, end) of a sequence, which are full.
void batch_policy::name_blocks(const progress& s, std::uint32_t first, std::uint32_t end) {
  if (!s.prefixes)
    return;
  for (std::size_t t = 0; t < needs_.num_tables(); ++t)
    for (auto i = std::max(first, s.first[t]); i < end; ++i)
      store_.name((*s.tables)[t].at(i), name_of(s, (i + 1) * limits_.block_tokens, t));
}

void batch_policy::release(progress& s) {
  for (std::size_t t = 0; t < s.first.size(); ++t) {
    const auto& table = (*s.tables)[t];
    store_.release(table, s.first[t], static_cast<std::uint32_t>(table.size()));
  }
  s.tables =
      std::make_shared<std::vector<block_table>>(needs_.num_tables()); // a dropped step may have the old ones
  s.first.assign(needs_.num_tables(), 0);
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
  release(s);
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
void batch_policy::put_back(const rank& waiting, std::int32_t behind) {
  auto& s = sequences_.at(waiting.second);
  if (++s.num_put_back < defaults::max_put_back)
    return;
  waiting_.erase(waiting);
  s.priority = behind;
  waiting_.emplace(s.priority, waiting.second);
}

void batch_policy::take(key name, progress& s, std::uint32_t& budget, plan& result) {
  const auto remaining = s.num_tokens - s.num_computed;
  s.rows_in_flight = std::min(remaining, budget);
  budget -= s.rows_in_flight;
  result.slices.push_back({name, s.num_computed, s.rows_in_flight, s.rows_in_flight == remaining});
}

} // namespace troupe
