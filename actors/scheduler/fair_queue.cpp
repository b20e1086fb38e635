#include "actors/scheduler/fair_queue.hpp"

#include <algorithm>
#include <chrono>

#include "actors/defaults.hpp"

namespace troupe {

namespace {

/// A tenant of weight 1 is this far from its next turn, others so much nearer as their weight is greater.
constexpr uint64_t full_round = uint64_t{1} << 24U;

/// Replays are no tenant's: who lost a worker has had its turn.
const std::string& line_of(const admission_request& request) {
  static const std::string all;
  return request.attempt > 0 ? all : request.tenant;
}

uint64_t measure_of(const fair_queue::amount& amount, bool by_bytes) {
  return by_bytes ? amount.bytes : amount.requests;
}

} // namespace

void fair_queue::add(const admission_request& request, time_point now) {
  const level_key key{request.attempt == 0, request.priority};
  const auto arrival = next_arrival_++;
  level& to = levels_[key];
  line& own = to.lines[line_of(request)];
  // Whoever has nothing waiting loses the turns that it could have had.
  if (own.requests.empty())
    own.turn = std::max(own.turn, to.turn);
  own.requests.emplace(arrival,
                       waiting{request, now, now + std::chrono::milliseconds{request.deadline_ms}, {}});
  ++to.num_requests;
  places_[request.id] = {key, arrival, line_of(request)};
  if (is_promised(request))
    return;
  holding& held = holdings_[request.tenant];
  held.weight = weight_of(request);
  held.requests.emplace(std::pair{request.priority, arrival}, request.id);
  const uint64_t bytes = queue_bytes_of(request);
  ++held.total.requests;
  held.total.bytes += bytes;
  ++new_.requests;
  new_.bytes += bytes;
}

fair_queue::waiting fair_queue::take(level& from, line& of, request_map::iterator request) {
  const uint64_t arrival = request->first;
  waiting result = std::move(request->second);
  of.requests.erase(request);
  --from.num_requests;
  places_.erase(result.request.id);
  if (is_promised(result.request))
    return result;
  const auto found = holdings_.find(result.request.tenant);
  holding& held = found->second;
  const uint64_t bytes = queue_bytes_of(result.request);
  held.requests.erase({result.request.priority, arrival});
  --held.total.requests;
  held.total.bytes -= bytes;
  --new_.requests;
  new_.bytes -= bytes;
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
/// for another one at once.
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
  };

  std::vector<cursor> open;
  for (auto& [tenant, one] : from.lines)
    if (!one.requests.empty())
      open.push_back({&one, one.requests.begin()});
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
      // One that waited for room does not catch up on the turns of those who went before it.
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
      open.erase(turn);
      continue;
    }
    if (turn->next == turn->of->requests.end())
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

uint64_t fair_queue::bytes_of(request_id id) const {
  const place& where = places_.at(id);
  return queue_bytes_of(levels_.at(where.where).lines.at(where.tenant).requests.at(where.arrival).request);
}

std::optional<std::vector<request_id>>
fair_queue::displaced_by(const admission_request& request, const std::function<bool(const amount&)>& is_full,
                         bool by_bytes) const {
  struct loser {
    const holding* held;
    amount left;
    decltype(holding::requests)::const_reverse_iterator next;
  };

  const uint64_t bytes = queue_bytes_of(request);
  amount own{1, bytes};
  std::vector<loser> others;
  for (const auto& [tenant, held] : holdings_) {
    if (tenant == request.tenant)
      own = {held.total.requests + 1, held.total.bytes + bytes};
    else
      others.push_back({&held, held.total, held.requests.rbegin()});
  }
  std::vector<request_id> result;
  amount total{new_.requests + 1, new_.bytes + bytes};
  while (is_full(total)) {
    const auto most = std::max_element(others.begin(), others.end(), [&](const loser& l, const loser& r) {
      return measure_of(l.left, by_bytes) * r.held->weight < measure_of(r.left, by_bytes) * l.held->weight;
    });
    if (most == others.end()
        || measure_of(most->left, by_bytes) * weight_of(request)
               <= measure_of(own, by_bytes) * most->held->weight)
      return std::nullopt;
    const request_id leaves = (most->next++)->second;
    const uint64_t freed = bytes_of(leaves);
    --most->left.requests;
    most->left.bytes -= freed;
    --total.requests;
    total.bytes -= freed;
    result.push_back(leaves);
  }
  return result;
}

} // namespace troupe
