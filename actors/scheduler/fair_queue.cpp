#include "actors/scheduler/fair_queue.hpp"

#include <algorithm>
#include <chrono>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

/// Distance of a tenant of weight 1 to its next turn. For weight N it is N times shorter.
constexpr std::uint64_t full_round = std::uint64_t{1} << 24U;

/// Replays belong to no tenant: a request that lost its worker has had its turn.
const std::string& line_of(const admission_request& request) {
  static const std::string all;
  return request.attempt > 0 ? all : request.tenant;
}

std::uint64_t measured(const fair_queue::amount& amount, fair_queue::measure by) {
  switch (by) {
  case fair_queue::measure::requests:
    return amount.requests;
  case fair_queue::measure::bytes:
    return amount.bytes;
  case fair_queue::measure::tokens:
    break;
  }
  return amount.tokens;
}

fair_queue::amount amount_of_one(const fair_queue::waiting& one) {
  return {1, queue_bytes_of(one.request), one.tokens};
}

} // namespace

fair_queue::amount& fair_queue::amount::operator+=(const amount& other) {
  requests += other.requests;
  bytes += other.bytes;
  tokens += other.tokens;
  return *this;
}

fair_queue::amount& fair_queue::amount::operator-=(const amount& other) {
  requests -= other.requests;
  bytes -= other.bytes;
  tokens -= other.tokens;
  return *this;
}

void fair_queue::add(const admission_request& request, time_point now, std::uint64_t tokens,
                     std::chrono::milliseconds longest_wait) {
  const level_key key{request.attempt == 0, request.priority};
  const auto arrival = next_arrival_++;
  level& to = levels_[key];
  line& own = to.lines[line_of(request)];
  // A tenant without waiting requests loses the turns that it could have had.
  if (own.requests.empty())
    own.turn = std::max(own.turn, to.turn);
  auto wait = std::chrono::milliseconds{request.deadline_ms};
  if (longest_wait.count() > 0)
    wait = std::min(wait, longest_wait);
  const auto added = own.requests.emplace(arrival, waiting{request, now, now + wait, tokens, {}}).first;
  ++to.num_requests;
  places_[request.id] = {key, arrival, line_of(request)};
  if (is_promised(request))
    return;
  holding& held = holdings_[request.tenant];
  held.weight = weight_of(request);
  held.requests.emplace(std::pair{request.priority, arrival}, request.id);
  held.total += amount_of_one(added->second);
  new_ += amount_of_one(added->second);
}

fair_queue::waiting fair_queue::take(level& from, line& of, request_map::iterator request) {
  const std::uint64_t arrival = request->first;
  waiting result = std::move(request->second);
  of.requests.erase(request);
  --from.num_requests;
  places_.erase(result.request.id);
  if (is_promised(result.request))
    return result;
  const auto found = holdings_.find(result.request.tenant);
  holding& held = found->second;
  held.requests.erase({result.request.priority, arrival});
  held.total -= amount_of_one(result);
  new_ -= amount_of_one(result);
  if (held.requests.empty())
    holdings_.erase(found);
  return result;
}

bool fair_queue::remove(request_id id) {
  const auto found = places_.find(id);
  if (found == places_.end())
    return false;
  const place where = found->second;
  const auto at = levels_.find(where.where);
  line& own = at->second.lines.at(where.tenant);
  take(at->second, own, own.requests.find(where.arrival));
  if (at->second.num_requests == 0)
    levels_.erase(at);
  return true;
}

/// A tenant without requests is remembered until its turn would have come: else it could leave and come back
/// to get another turn at once.
void fair_queue::forget_idle(level& of) const {
  std::erase_if(of.lines, [&of](const auto& entry) {
    return entry.second.requests.empty() && entry.second.turn <= of.turn;
  });
}

/// @returns whether lower levels may have places, too
bool fair_queue::serve(level& from, bool is_new, time_point now,
                       const std::function<verdict(const waiting&)>& offer) {
  struct cursor {
    line* of;
    request_map::iterator next;
    std::size_t num_without_room = 0;
  };

  std::vector<cursor> open;
  for (auto& [tenant, one] : from.lines)
    if (!one.requests.empty())
      open.push_back({&one, one.requests.begin(), 0});
  std::vector<waiting*> without_room;
  while (!open.empty()) {
    const auto turn = std::min_element(open.begin(), open.end(), [](const cursor& l, const cursor& r) {
      return std::pair{l.of->turn, l.next->first} < std::pair{r.of->turn, r.next->first};
    });
    waiting& offered = turn->next->second;
    switch (offer(offered)) {
    case verdict::taken:
      for (waiting* passed : without_room)
        if (!passed->overtaken)
          passed->overtaken = now;
      // A request that waited for room does not catch up on the turns of those that overtook it.
      from.turn = std::max(from.turn, turn->of->turn);
      turn->of->turn = from.turn + full_round / weight_of(offered.request);
      take(from, *turn->of, turn->next++);
      break;
    case verdict::skipped:
      ++turn->next;
      break;
    case verdict::no_room:
      if (!is_new || (offered.overtaken && now - *offered.overtaken >= defaults::overtaking))
        return false;
      without_room.push_back(&offered);
      ++turn->next;
      ++turn->num_without_room;
      break;
    case verdict::full:
      return false;
    }
    if (turn->next == turn->of->requests.end() || turn->num_without_room > defaults::max_looked_past)
      open.erase(turn);
  }
  return without_room.empty();
}

void fair_queue::take_turns(time_point now, const std::function<verdict(const waiting&)>& offer) {
  bool goes_on = true;
  for (auto entry = levels_.begin(); goes_on && entry != levels_.end();) {
    goes_on = serve(entry->second, entry->first.first, now, offer);
    forget_idle(entry->second);
    entry = entry->second.num_requests == 0 ? levels_.erase(entry) : std::next(entry);
  }
}

std::vector<fair_queue::waiting> fair_queue::take_expired(time_point now) {
  std::vector<waiting> result;
  for (auto entry = levels_.begin(); entry != levels_.end();) {
    level& at = entry->second;
    for (auto& [tenant, one] : at.lines)
      for (auto request = one.requests.begin(); request != one.requests.end();) {
        const auto next = std::next(request);
        if (now >= request->second.deadline)
          result.push_back(take(at, one, request));
        request = next;
      }
    entry = at.num_requests == 0 ? levels_.erase(entry) : std::next(entry);
  }
  return result;
}

fair_queue::amount fair_queue::amount_of(request_id id) const {
  const place& where = places_.at(id);
  return amount_of_one(levels_.at(where.where).lines.at(where.tenant).requests.at(where.arrival));
}

std::optional<std::vector<request_id>>
fair_queue::displaced_by(const admission_request& request, const amount& added,
                         const std::function<bool(const amount&)>& is_full, measure by) const {
  struct loser {
    const holding* held;
    amount left;
    decltype(holding::requests)::const_reverse_iterator next;
  };

  amount own = added;
  std::vector<loser> others;
  for (const auto& [tenant, held] : holdings_)
    if (tenant == request.tenant)
      own += held.total;
    else
      others.push_back({&held, held.total, held.requests.rbegin()});
  std::vector<request_id> result;
  amount total = new_ + added;
  while (is_full(total)) {
    const auto most = std::max_element(others.begin(), others.end(), [&](const loser& l, const loser& r) {
      return measured(l.left, by) * r.held->weight < measured(r.left, by) * l.held->weight;
    });
    if (most == others.end()
        || measured(most->left, by) * weight_of(request) <= measured(own, by) * most->held->weight)
      return std::nullopt;
    const request_id leaves = (most->next++)->second;
    const amount freed = amount_of(leaves);
    most->left -= freed;
    total -= freed;
    result.push_back(leaves);
  }
  return result;
}

} // namespace troupe
