#include "actors/scheduler/move_desk.hpp"

#include <algorithm>
#include <utility>

#include "actors/protocol/error.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

caf::error move_desk::check(const expert_move& move, const expert_desk& experts,
                            const member_table& members) const {
  if (moves_.contains(move.to.expert))
    return make_error(ec::cancelled, "the expert is on its way already");
  if (experts.target().hosts(move.to.expert) != move.from)
    return make_error(ec::cancelled, "the expert has other hosts by now");
  for (auto id : move.to.hosts)
    if (const auto* member = members.find(id);
        member == nullptr || experts.takes_nothing(id, member->hello.address.name))
      return make_error(ec::cancelled, "a worker that was to hold the expert is gone, or takes nothing");
  if (move.to.hosts.empty())
    return make_error(ec::bad_request, "an expert needs a host");
  return {};
}

void move_desk::begin(const expert_move& move, expert_desk& experts, answer when_over) {
  experts.target().set_hosts(move.to.expert, move.to.hosts);
  moves_[move.to.expert] = {std::move(when_over), move.to.hosts, move.from,
                            timeline::is_on() ? timeline::now_ns() : 0};
}

void move_desk::finish(const expert_desk& experts, const member_table& members) {
  if (moves_.empty() || experts.target().wants_repair())
    return;
  for (auto at = moves_.begin(); at != moves_.end();) {
    auto& [expert, move] = *at;
    const auto is_void = experts.target().hosts(expert) != move.to;
    if (!is_void && !experts.rollout().is_carried_out(expert)) {
      ++at;
      continue;
    }
    trace(expert, move, !is_void, members);
    move.when_over(is_void ? make_error(ec::cancelled, "a host was lost, or has no room") : caf::error{});
    at = moves_.erase(at);
  }
}

void move_desk::abandon(worker_id host, const std::string& why, expert_desk& experts,
                        const member_table& members) {
  for (auto at = moves_.begin(); at != moves_.end();) {
    auto& [expert, move] = *at;
    const auto has_it = experts.rollout().hosts_with(expert);
    if (std::find(move.to.begin(), move.to.end(), host) == move.to.end()
        || std::find(has_it.begin(), has_it.end(), host) != has_it.end()) {
      ++at;
      continue;
    }
    experts.target().set_hosts(expert, move.from);
    trace(expert, move, false, members);
    move.when_over(make_error(ec::engine_failed, why));
    at = moves_.erase(at);
  }
}

void move_desk::shut_down(const caf::error& reason) {
  for (auto& [expert, move] : moves_)
    move.when_over(reason);
  moves_.clear();
}

void move_desk::trace(expert_id expert, const pending_move& move, bool is_done, const member_table& members) {
  if (move.begin_ns == 0)
    return;
  const auto names = [&members](const std::vector<worker_id>& hosts) {
    std::string text;
    for (const auto id : hosts) {
      const auto* member = members.find(id);
      text +=
          (text.empty() ? "" : ", ") + (member == nullptr ? "one that is gone" : member->hello.address.name);
    }
    return text;
  };
  timeline::event moved{.kind = timeline::event_kind::expert_move, .begin_ns = move.begin_ns};
  moved.id = timeline::packed(expert.layer, expert.index);
  moved.duration_ns = timeline::now_ns() - move.begin_ns;
  moved.args = {move.from.size(), move.to.size(), is_done ? 1U : 0U};
  timeline::record(moved, "from " + names(move.from) + " to " + names(move.to));
}

} // namespace troupe
