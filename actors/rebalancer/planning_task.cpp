#include "actors/rebalancer/planning_task.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "actors/planner/layer_packing.hpp"
#include "actors/protocol/activation_window.hpp"

namespace troupe {

namespace {

constexpr auto any_number = std::numeric_limits<std::uint64_t>::max();

std::uint64_t num_experts_of(const fleet& hosts) {
  std::uint64_t sum = 0;
  for (auto experts : hosts.layer_experts)
    sum += experts;
  return sum;
}

std::map<worker_id, std::uint64_t> num_held(const fleet& hosts) {
  std::map<worker_id, std::uint64_t> result;
  for (const auto& layer : hosts.target)
    for (const auto& expert : layer)
      for (auto id : expert)
        ++result[id];
  return result;
}

std::vector<planner_worker> workers_of(const planning_task& task, const planning_settings& settings) {
  const auto& hosts = *task.hosts;
  std::uint64_t num_hosts = 0;
  long double memory = 0;
  for (const auto& host : hosts.hosts)
    if (!host.leaves && !task.orders.drained.contains(host.name)) {
      ++num_hosts;
      memory += static_cast<long double>(host.max_experts);
    }
  const auto needed = num_experts_of(hosts) * std::min<std::uint64_t>(hosts.num_replicas, num_hosts);
  const auto held = num_held(hosts);
  std::vector<planner_worker> result;
  for (const auto& host : hosts.hosts) {
    if (host.leaves)
      continue;
    planner_worker worker{host.id};
    worker.topology = host.topology;
    worker.speed = task.speed ? task.speed(host.id) : 1;
    if (host.max_experts == any_number) {
      const auto share =
          static_cast<double>(needed) / static_cast<double>(std::max<std::uint64_t>(num_hosts, 1));
      // Uneven loads may require uneven numbers of experts; spare copies are distributed evenly.
      worker.max_experts = static_cast<std::uint64_t>(std::ceil(share * (1 + settings.spare_copies))) + 1;
    } else {
      // One free place on each host, so that experts can swap hosts without one of them releasing first.
      const auto is_roomy = memory >= static_cast<long double>(needed + num_hosts);
      worker.max_experts = host.max_experts - (is_roomy && host.max_experts > 1 ? 1 : 0);
    }
    if (const auto found = held.find(host.id); found != held.end()) // what it holds may stay
      worker.max_experts = std::max(worker.max_experts, std::min(found->second, host.max_experts));
    result.push_back(worker);
  }
  return result;
}

planner_history history_of(const planning_task& task, const planning_settings& settings) {
  planner_history result;
  if (task.history.layer_experts != task.hosts->layer_experts)
    return result; // nothing was counted, or it is of another model
  result.counts = task.history.decayed;
  const auto& windows = task.history.windows;
  const auto first = windows.size() - std::min(windows.size(), settings.max_windows);
  for (auto at = first; at < windows.size(); ++at) {
    activation_window counted;
    try {
      counted = decode_window(windows[at].encoded, task.history.layer_experts);
    } catch (const std::exception&) {
      continue; // the history validates windows; an invalid one must not stop planning
    }
    if (num_rows(counted.counts) == 0)
      continue;
    auto& window = result.windows.emplace_back();
    for (const auto& layer : counted.counts.rows)
      window.rows.emplace_back(layer.begin(), layer.end());
    window.num_steps = static_cast<double>(counted.counts.micro_batches);
  }
  return result;
}

std::vector<worker_id> ids_of(const std::vector<std::string>& names, const fleet& hosts) {
  std::vector<worker_id> result;
  for (const auto& host : hosts.hosts)
    if (std::find(names.begin(), names.end(), host.name) != names.end())
      result.push_back(host.id);
  return result; // ascending, like the hosts
}

planner_input input_of(const planning_task& task, const planning_settings& settings) {
  const auto& hosts = *task.hosts;
  planner_input input;
  input.history = history_of(task, settings);
  input.workers = workers_of(task, settings);
  input.expert_bytes.assign(hosts.layer_experts.size(), hosts.expert_bytes);
  input.present = hosts.target;
  input.constraints.min_replicas = std::min<std::uint32_t>(
      hosts.num_replicas, static_cast<std::uint32_t>(std::max<std::size_t>(input.workers.size(), 1)));
  for (const auto& [expert, names] : task.orders.pins)
    input.constraints.pins.push_back({expert, ids_of(names, hosts)});
  input.constraints.more_replicas = task.orders.replicas;
  for (const auto& host : hosts.hosts)
    if (task.orders.drained.contains(host.name))
      input.constraints.drained.insert(host.id);
  if (task.ns_per_run > 0)
    input.costs.expert_ns = task.ns_per_run;
  input.costs.row_ns = input.costs.expert_ns * settings.row_share;
  // A small cluster spreads every layer over all of its hosts (placement_spread.hpp), at any cost.
  if (input.workers.size() <= hosts.small_cluster)
    input.costs.message_ns = 0;
  return input;
}

/// Removes surplus copies of one expert from its busiest hosts.
void cut_replicas(draft_placement& draft, expert_id expert, std::uint32_t count) {
  while (draft.num_replicas(expert.layer, expert.index) > std::max(count, 1U)) {
    const auto loads = mean_loads(draft, expert.layer);
    const auto& hosts = draft.hosts(expert.layer)[expert.index];
    const auto most = *std::max_element(hosts.begin(), hosts.end(),
                                        [&loads](auto l, auto r) { return loads[l] < loads[r]; });
    draft.remove(most, expert.layer, expert.index);
  }
}

std::vector<worker_id> ids_of(const std::vector<host_index>& indices, const planning_problem& problem) {
  std::vector<worker_id> result;
  for (auto index : indices)
    result.push_back(problem.host(index).id);
  return result;
}

void describe(planning_answer& answer, const fleet& hosts, const std::vector<expert_target>& changes) {
  for (const auto& change : changes) {
    placement_step step{change.expert, hosts.target[change.expert.layer][change.expert.index], change.hosts};
    const auto num_loads = gaining_hosts(step).size();
    answer.moves += num_loads;
    answer.bytes += num_loads * hosts.expert_bytes;
    answer.steps.push_back(std::move(step));
  }
}

/// Exactly these hosts, with the predicted effect.
void assign(planning_answer& answer, const planning_task& task, planner_input input) {
  const auto& hosts = *task.hosts;
  std::map<worker_id, std::pair<const fleet_host*, std::uint64_t>> held; // after the change
  const auto now = num_held(hosts);
  for (const auto& host : hosts.hosts)
    held[host.id] = {&host, now.contains(host.id) ? now.at(host.id) : 0};
  std::vector<expert_target> changes;
  for (const auto& wanted : task.wanted) {
    const auto& before = hosts.target[wanted.expert.layer][wanted.expert.index];
    if (before == wanted.hosts)
      continue;
    for (auto id : before)
      --held[id].second;
    for (auto id : wanted.hosts)
      ++held[id].second;
    changes.push_back(wanted);
  }
  for (const auto& [id, entry] : held)
    if (entry.first != nullptr && entry.second > entry.first->max_experts) {
      answer.flaw = entry.first->name + " has room for " + std::to_string(entry.first->max_experts)
                    + " experts, and would hold " + std::to_string(entry.second);
      return;
    }
  const planning_problem problem{input};
  answer.before = score(repaired(problem));
  for (auto& worker : input.workers)
    worker.max_experts = any_number; // room has been checked
  input.constraints.pins = changes;
  answer.after = score(repaired(planning_problem{input}));
  describe(answer, hosts, changes);
}

} // namespace

planning_answer carry_out(const planning_task& task, const planning_settings& settings) {
  planning_answer answer;
  const auto& hosts = *task.hosts;
  auto input = input_of(task, settings);
  planner_settings chosen;
  chosen.search.max_evaluations = settings.max_evaluations;
  switch (task.what) {
  case planning_task::goal::look:
    answer.before = answer.after = score(repaired(planning_problem{input}));
    return answer;
  case planning_task::goal::assign:
    assign(answer, task, std::move(input));
    return answer;
  case planning_task::goal::search:
  case planning_task::goal::obey:
    break;
  }
  if (task.what == planning_task::goal::search) {
    auto planned = plan(input, chosen);
    if (!planned.unplaced.empty())
      answer.flaw = std::to_string(planned.unplaced.size()) + " experts would have no host";
    answer.before = planned.before;
    answer.after = planned.after;
    describe(answer, hosts, planned.changes);
    return answer;
  }
  const planning_problem problem{input};
  auto draft = repaired(problem);
  if (task.exact_replicas)
    cut_replicas(draft, *task.exact_replicas, task.orders.replicas.at(*task.exact_replicas));
  auto present = input;
  present.constraints = {};
  present.constraints.min_replicas = input.constraints.min_replicas;
  answer.before = score(repaired(planning_problem{present}));
  answer.after = score(draft);
  std::vector<expert_target> changes;
  std::uint64_t num_unplaced = 0;
  for (std::uint32_t layer = 0; layer < problem.num_layers(); ++layer)
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert) {
      auto wanted = ids_of(draft.hosts(layer)[expert], problem);
      num_unplaced += wanted.empty() ? 1 : 0;
      if (!wanted.empty() && wanted != hosts.target[layer][expert])
        changes.push_back({{layer, expert}, std::move(wanted)});
    }
  if (num_unplaced > 0)
    answer.flaw = std::to_string(num_unplaced) + " experts would have no host";
  describe(answer, hosts, changes);
  return answer;
}

std::map<worker_id, std::uint64_t> room_of(const fleet& hosts) {
  const auto held = num_held(hosts);
  std::map<worker_id, std::uint64_t> result;
  for (const auto& host : hosts.hosts)
    if (host.max_experts != any_number) {
      const auto found = held.find(host.id);
      const auto count = found == held.end() ? 0 : found->second;
      result[host.id] = host.max_experts - std::min(host.max_experts, count);
    }
  return result;
}

predicted_step predicted(const placement_score& score) {
  const auto rounded = [](double value) {
    return static_cast<std::uint64_t>(std::llround(std::clamp(value, 0.0, 1e18)));
  };
  return {rounded(score.step_ns), rounded(score.busiest_ns), rounded(score.messages * 1e6),
          rounded(score.mean_max_share * 1e6)};
}

} // namespace troupe
