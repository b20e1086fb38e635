#include "services/timeline/trace_clocks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace troupe {

namespace {

using timeline::event;
using timeline::event_kind;

std::int64_t begin_of(const event& what) {
  return static_cast<std::int64_t>(what.begin_ns);
}

std::int64_t end_of(const event& what) {
  return static_cast<std::int64_t>(what.begin_ns + what.duration_ns);
}

/// An event and its log.
struct found_event {
  std::size_t log = 0;
  const event* what = nullptr;
};

/// Events by the values that both sides of an exchange know.
using event_table =
    std::map<std::tuple<event_kind, std::uint64_t, std::uint64_t, std::uint64_t>, found_event>;

event_table table_of(const std::vector<trace_log>& logs) {
  event_table table;
  for (std::size_t log = 0; log < logs.size(); ++log)
    for (const auto& entry : logs[log].events) {
      const auto& e = entry.what;
      switch (e.kind) {
      case event_kind::admission:
      case event_kind::queue:
        table[{e.kind, e.args[0], e.args[1], 0}] = {log, &e};
        break;
      case event_kind::submit:
      case event_kind::accept_sequence:
        table[{e.kind, e.args[0], e.args[1], 0}] = {log, &e};
        break;
      case event_kind::token_sent:
      case event_kind::token_arrived:
        table[{e.kind, e.args[0], e.args[1], e.args[2]}] = {log, &e};
        break;
      case event_kind::expert_batch:
      case event_kind::host_batch:
        table[{e.kind, e.id, 0, 0}] = {log, &e};
        break;
      default:
        break;
      }
    }
  return table;
}

using trips_by_pair = std::map<std::pair<std::size_t, std::size_t>, std::vector<round_trip>>;

void add_admission(const event_table& table, const found_event& admission, trips_by_pair& trips) {
  const auto& asked = *admission.what;
  if (const auto other = table.find({event_kind::queue, asked.args[0], asked.args[1], 0});
      other != table.end())
    trips[{admission.log, other->second.log}].push_back(
        {begin_of(asked), begin_of(*other->second.what), end_of(*other->second.what), end_of(asked)});
}

void add_sequence(const event_table& table, const found_event& arrival, trips_by_pair& trips) {
  const auto& token = *arrival.what;
  const auto submit = table.find({event_kind::submit, token.args[0], token.args[1], 0});
  const auto accept = table.find({event_kind::accept_sequence, token.args[0], token.args[1], 0});
  const auto sent = table.find({event_kind::token_sent, token.args[0], token.args[1], token.args[2]});
  if (submit == table.end() || accept == table.end() || sent == table.end()
      || accept->second.log != sent->second.log || submit->second.log != arrival.log)
    return;
  trips[{arrival.log, sent->second.log}].push_back({begin_of(*submit->second.what),
                                                    begin_of(*accept->second.what),
                                                    begin_of(*sent->second.what), begin_of(token)});
}

void add_expert_batch(const event_table& table, const found_event& sent, trips_by_pair& trips) {
  const auto& batch = *sent.what;
  const auto host = table.find({event_kind::host_batch, batch.id, 0, 0});
  if (host == table.end() || batch.args[2] == 0)
    return;
  trips[{sent.log, host->second.log}].push_back({begin_of(batch), static_cast<std::int64_t>(batch.args[2]),
                                                 static_cast<std::int64_t>(batch.args[3]), end_of(batch)});
}

/// Measurements of the clock of `to` by that of `from`.
struct link {
  std::size_t to = 0;
  clock_offset offset;
  std::string how;
};

clock_offset reversed(const clock_offset& offset) {
  auto points = offset.points();
  for (auto& point : points) {
    point.at += point.offset;
    point.offset = -point.offset;
  }
  return clock_offset{std::move(points)};
}

const clock_offset& no_offset() {
  static const clock_offset none{{clock_point{}}};
  return none;
}

/// Whether a measurement permits that both share a clock.
bool may_be_shared(const clock_offset& measured) {
  return std::all_of(measured.points().begin(), measured.points().end(),
                     [](const clock_point& point) { return std::abs(point.offset) <= point.error; });
}

std::vector<std::vector<link>> links_of(const std::vector<trace_log>& logs, clock_source source) {
  std::vector<std::vector<link>> links(logs.size());
  std::map<std::pair<std::size_t, std::size_t>, clock_offset> measured;
  for (const auto& pair : round_trips_in(logs))
    if (auto offset = estimate_offset(pair.trips); pair.asks != pair.answers && offset.is_known())
      measured[{pair.asks, pair.answers}] = std::move(offset);
  for (const auto& [pair, offset] : measured) {
    links[pair.first].push_back({pair.second, offset, "measured"});
    links[pair.second].push_back({pair.first, reversed(offset), "measured"});
  }
  if (source == clock_source::measured)
    return links;
  std::set<std::string> not_shared; // names of clocks that an exchange shows to differ
  for (const auto& [pair, offset] : measured)
    if (logs[pair.first].process.clock == logs[pair.second].process.clock && !may_be_shared(offset))
      not_shared.insert(logs[pair.first].process.clock);
  for (std::size_t a = 0; a < logs.size(); ++a)
    for (std::size_t b = 0; b < logs.size(); ++b)
      if (a != b && logs[a].process.clock == logs[b].process.clock
          && !not_shared.contains(logs[a].process.clock))
        links[a].push_back({b, no_offset(), "shared"});
  return links;
}

process_clock by_wall_clock(const traced_process& reference, const traced_process& other) {
  const auto ours = static_cast<std::int64_t>(reference.unix_ns - reference.steady_ns);
  const auto theirs = static_cast<std::int64_t>(other.unix_ns - other.steady_ns);
  process_clock clock;
  clock.how = "wall clock";
  clock.steps = {clock_offset{{clock_point{0, ours - theirs, 0}}}};
  return clock;
}

} // namespace

std::int64_t process_clock::common(std::uint64_t steady_ns) const {
  auto time = static_cast<std::int64_t>(steady_ns);
  for (const auto& step : steps)
    time = step.to_ours(time);
  return time;
}

std::vector<measured_pair> round_trips_in(const std::vector<trace_log>& logs) {
  const auto table = table_of(logs);
  trips_by_pair trips;
  for (const auto& [key, found] : table)
    switch (std::get<0>(key)) {
    case event_kind::admission:
      add_admission(table, found, trips);
      break;
    case event_kind::token_arrived:
      add_sequence(table, found, trips);
      break;
    case event_kind::expert_batch:
      add_expert_batch(table, found, trips);
      break;
    default:
      break;
    }
  std::vector<measured_pair> result;
  for (auto& [pair, list] : trips)
    result.push_back({pair.first, pair.second, std::move(list)});
  return result;
}

std::vector<process_clock> common_clocks(const std::vector<trace_log>& logs, clock_source source) {
  const auto links = links_of(logs, source);
  std::vector<std::optional<process_clock>> known(logs.size());
  known.front() = process_clock{};
  known.front()->how = "reference";
  // Dijkstra: the process with the least error is next.
  std::vector<bool> is_done(logs.size(), false);
  for (;;) {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < logs.size(); ++i)
      if (known[i] && !is_done[i] && (!next || known[i]->error_ns < known[*next]->error_ns))
        next = i;
    if (!next)
      break;
    is_done[*next] = true;
    for (const auto& link : links[*next]) {
      const auto error = known[*next]->error_ns + link.offset.error();
      if (is_done[link.to] || (known[link.to] && known[link.to]->error_ns <= error))
        continue;
      process_clock clock;
      clock.how = known[*next]->how == "measured" ? "measured" : link.how;
      clock.error_ns = error;
      clock.steps = {link.offset};
      clock.steps.insert(clock.steps.end(), known[*next]->steps.begin(), known[*next]->steps.end());
      known[link.to] = std::move(clock);
    }
  }
  std::vector<process_clock> result;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    result.push_back(known[i] ? std::move(*known[i]) : by_wall_clock(logs.front().process, logs[i].process));
    const auto& process = logs[i].process;
    result.back().offset_ns =
        static_cast<std::int64_t>(process.steady_ns) - result.back().common(process.steady_ns);
  }
  return result;
}

} // namespace troupe
