#include "tests/simulation/network.hpp"

#include <algorithm>
#include <utility>

#include "tests/simulation/simulated_fabric.hpp"

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;

// A sender tries again this long after a cut is over, at most: TCP's shortest timeout.
constexpr auto longest_resend = 200ms;

} // namespace

duration network::delay(const path& on) {
  return on.factor * (usual_.latency + dice_.up_to(usual_.jitter));
}

void network::knock(const std::string& from, const std::string& to,
                    std::function<void(simulated_fabric&)> reached, std::function<void()> refused) {
  auto& there = between(from, to);
  auto& back = between(to, from);
  if (there.is_cut || back.is_cut || lost_.contains(to))
    return;
  // There, back, and there again before the other side knows the peer.
  const auto arrives = delay(there) + delay(back) + delay(there);
  agenda_.after(arrives, [this, from, to, reached = std::move(reached), refused = std::move(refused)] {
    if (between(from, to).is_cut || between(to, from).is_cut || lost_.contains(to))
      return;
    const auto found = listeners_.find(to);
    if (found == listeners_.end())
      refused();
    else
      found->second->gate()->pass([reached, who = found->second] { reached(*who); });
  });
}

void network::listen(const std::string& machine, simulated_fabric& who) {
  listeners_[machine] = &who;
  lost_.erase(machine);
}

pipe_ptr network::make_pipe(const std::string& from, const std::string& to, process_gate_ptr receiver) {
  auto result = std::make_shared<pipe>();
  result->from = from;
  result->to = to;
  result->receiver = std::move(receiver);
  auto& pipes = between(from, to).pipes;
  std::erase_if(pipes, [](const auto& one) { return one.expired(); });
  pipes.push_back(result);
  return result;
}

void network::send(const pipe_ptr& through, packet what, std::size_t num_bytes) {
  if (through->is_closed)
    return;
  auto& on = between(through->from, through->to);
  const auto sent_ns = static_cast<double>(num_bytes) * on.factor / usual_.bytes_per_ns;
  on.busy_until = std::max(on.busy_until, agenda_.now()) + duration{static_cast<std::int64_t>(sent_ns)};
  through->last_arrival = std::max(through->last_arrival, on.busy_until + delay(on));
  through->under_way.push_back({std::move(what), through->last_arrival});
  if (!on.is_cut)
    plan_arrival(through, through->last_arrival);
}

void network::plan_arrival(const pipe_ptr& of, time_point when) {
  agenda_.at(when, [this, of] { of->receiver->pass([this, of] { pump(of); }); });
}

void network::pump(const pipe_ptr& which) {
  if (between(which->from, which->to).is_cut)
    return;
  while (!which->under_way.empty() && which->under_way.front().arrives <= agenda_.now()) {
    auto arrived = std::move(which->under_way.front().what);
    which->under_way.pop_front();
    which->deliver(arrived);
  }
}

void network::close(const pipe_ptr& which) {
  if (which->is_closed)
    return;
  which->is_closed = true;
  auto& on = between(which->from, which->to);
  if (on.is_cut)
    return; // the receiver finds out by silence
  agenda_.after(delay(on) + dice_.up_to(3ms), [which] {
    if (which->receiver) // null: no process has accepted it yet
      which->receiver->pass([which] {
        which->under_way.clear();
        which->closed();
      });
  });
}

std::vector<pipe_ptr> network::pipes_of(path& on) {
  std::vector<pipe_ptr> result;
  for (const auto& one : on.pipes)
    if (auto alive = one.lock())
      result.push_back(std::move(alive));
  return result;
}

void network::cut(const std::string& from, const std::string& to) {
  between(from, to).is_cut = true;
}

void network::heal(const std::string& from, const std::string& to) {
  auto& on = between(from, to);
  if (!on.is_cut)
    return;
  on.is_cut = false;
  on.busy_until = std::max(on.busy_until, agenda_.now());
  for (const auto& one : pipes_of(on)) {
    auto arrives = agenda_.now() + dice_.up_to(longest_resend) + delay(on);
    for (auto& entry : one->under_way) {
      arrives = entry.arrives = std::max(arrives, entry.arrives);
      plan_arrival(one, arrives);
    }
    one->last_arrival = std::max(one->last_arrival, arrives);
  }
}

void network::slow_down(const std::string& from, const std::string& to, std::uint32_t factor) {
  between(from, to).factor = factor;
}

void network::forget_some(pipe& of) {
  const auto kept = dice_.below(static_cast<std::uint32_t>(of.under_way.size()) + 1);
  of.under_way.erase(of.under_way.begin() + kept, of.under_way.end());
}

void network::reset(const std::string& one, const std::string& other) {
  for (auto& [from, to] : {std::pair{one, other}, std::pair{other, one}})
    for (const auto& which : pipes_of(between(from, to))) {
      forget_some(*which);
      close(which);
    }
}

void network::lose(const std::string& machine) {
  listeners_.erase(machine);
  lost_.insert(machine);
  for (auto& [ends, on] : paths_)
    if (ends.first == machine || ends.second == machine)
      for (const auto& which : pipes_of(on)) {
        if (ends.first == machine)
          forget_some(*which);
        which->is_closed = true;
      }
}

} // namespace troupe::simulation
