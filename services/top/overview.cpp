#include "services/top/overview.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "services/top/interval_figures.hpp"

namespace troupe::top {

namespace {

/// Beyond what is normal: a lease is renewed each 500 ms and ends after 2 s.
constexpr uint64_t late_lease_ms = 1000;
/// A step takes milliseconds.
constexpr uint64_t long_step_ms = 1000;
constexpr size_t most_hot_experts = 8;

std::string seconds_text(uint64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  return text;
}

latency latency_of(const sample& before, const sample& after, const char* family) {
  const auto seen = observations(before.metrics, after.metrics, family);
  return {quantile(seen, 0.5), quantile(seen, 0.99)};
}

std::string state_of(const worker_state& worker, const placement_state* placement) {
  if (worker.lease_age_ms.value_or(0) > late_lease_ms) {
    return "silent for " + seconds_text(*worker.lease_age_ms);
  }
  if (worker.oldest_step_ms.value_or(0) > long_step_ms) {
    return "in a step for " + seconds_text(*worker.oldest_step_ms);
  }
  if (placement != nullptr) {
    const auto& drained = placement->drained;
    if (std::find(drained.begin(), drained.end(), worker.name) != drained.end()) {
      return worker.num_hosted == 0 ? "drained" : "draining";
    }
  }
  return worker.lease_age_ms ? "ok" : "not known";
}

/// Rows that each worker gets when an expert's rows are shared evenly by its hosts.
std::map<std::string, double> rows_by_worker(const expert_rows& rows, const cluster_state& cluster) {
  std::map<std::string, double> result;
  for (size_t layer = 0; layer < std::min(rows.size(), cluster.hosts.size()); ++layer) {
    for (size_t expert = 0; expert < std::min(rows[layer].size(), cluster.hosts[layer].size()); ++expert) {
      const auto& hosts = cluster.hosts[layer][expert];
      for (const std::string& host : hosts) {
        result[host] += rows[layer][expert] / static_cast<double>(hosts.size());
      }
    }
  }
  return result;
}

using known_count = std::optional<uint64_t>;

std::optional<double> share_of(known_count part, known_count all) {
  if (!part || all.value_or(0) == 0) {
    return std::nullopt;
  }
  return static_cast<double>(*part) / static_cast<double>(*all);
}

std::string text_of(known_count number) {
  return number ? std::to_string(*number) : "-";
}

/// "4/8"; "-" where neither is known.
std::string part_text(known_count part, known_count all) {
  return part || all ? text_of(part) + "/" + text_of(all) : "-";
}

/// Of all attention workers; nothing where there are none, or one does not say.
known_count sum_of(const cluster_state& cluster, known_count worker_state::*figure) {
  known_count sum;
  for (const worker_state& worker : cluster.workers) {
    if (worker.role == "attention") {
      if (!(worker.*figure)) {
        return std::nullopt;
      }
      sum = sum.value_or(0) + *(worker.*figure);
    }
  }
  return sum;
}

std::string count(uint64_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

/// Processors that a process has kept busy between its own two answers: each answers in its own time.
std::optional<double> processors_of(const process_state& before, const process_state& after) {
  if (!before.answered_at || !after.answered_at || !before.cpu_seconds || !after.cpu_seconds) {
    return std::nullopt;
  }
  const double seconds = std::chrono::duration<double>(*after.answered_at - *before.answered_at).count();
  if (seconds <= 0) {
    return std::nullopt;
  }
  const bool is_new = before.started && after.started && *before.started != *after.started;
  return (is_new ? *after.cpu_seconds : increase(*before.cpu_seconds, *after.cpu_seconds)) / seconds;
}

/// CPU time and memory of a process.
void add_process(worker_line& line, const std::string& name, const sample& before, const sample& after) {
  const auto last = after.processes.find(name);
  if (last == after.processes.end()) {
    return;
  }
  line.resident_bytes = last->second.resident_bytes;
  if (const auto first = before.processes.find(name); first != before.processes.end()) {
    line.processors = processors_of(first->second, last->second);
  }
}

/// Lines of processes that are no workers: schedulers.
void add_other_processes(std::vector<worker_line>& lines, const sample& of) {
  for (const auto& [name, process] : of.processes) {
    const auto is_it = [&name = name](const worker_line& line) { return line.name == name; };
    if (std::none_of(lines.begin(), lines.end(), is_it)) {
      worker_line line;
      line.name = name;
      line.role = process.role;
      line.state = process.answered_at ? "ok" : "no answer";
      lines.push_back(std::move(line));
    }
  }
}

std::vector<worker_line> worker_lines(const sample& before, const sample& of) {
  const auto rows = rows_by_worker(of.recent_rows, of.cluster);
  double all_rows = 0;
  for (const auto& [name, number] : rows) {
    all_rows += number;
  }
  std::vector<worker_line> lines;
  for (const worker_state& worker : of.cluster.workers) {
    worker_line line;
    line.name = worker.name;
    line.role = worker.role;
    line.state = state_of(worker, of.placement ? &*of.placement : nullptr);
    line.running = text_of(worker.running);
    line.waiting = worker.waiting;
    if (worker.role == "attention") {
      line.running = part_text(worker.running, worker.max_num_seqs);
      line.load = share_of(worker.running, worker.max_num_seqs);
      if (worker.kv_tokens_used || worker.kv_capacity_tokens) {
        line.memory = part_text(worker.kv_tokens_used, worker.kv_capacity_tokens) + " KV tokens";
      }
    } else if (worker.role == "expert") {
      if (const auto own = rows.find(worker.name); all_rows > 0) {
        line.load = own == rows.end() ? 0 : own->second / all_rows;
      }
      if (worker.num_hosted) {
        line.memory = count(*worker.num_hosted, "expert");
      }
    }
    lines.push_back(std::move(line));
  }
  add_other_processes(lines, of);
  for (worker_line& line : lines) {
    add_process(line, line.name, before, of);
  }
  const auto place = [](const worker_line& line) {
    return std::tuple(line.role, line.state == "ok", line.name);
  };
  std::sort(lines.begin(), lines.end(),
            [&](const worker_line& a, const worker_line& b) { return place(a) < place(b); });
  return lines;
}

/// The first process that has not answered, with the reason, and how many more there are.
void add_silent_processes(std::vector<std::string>& not_read, const sample& of) {
  std::string first;
  size_t others = 0;
  for (const auto& [name, process] : of.processes) {
    if (!process.error.empty()) {
      others += first.empty() ? 0 : 1;
      first = first.empty() ? process.error : first;
    }
  }
  if (!first.empty()) {
    not_read.push_back(first + (others == 0 ? "" : " (and " + std::to_string(others) + " more)"));
  }
}

std::string planner_text(const placement_state& placement) {
  std::string text = "planner " + placement.planner;
  if (!placement.change) {
    return text + ", no moves";
  }
  const change_state& change = *placement.change;
  return text + ", change " + std::to_string(change.id) + " (" + change.reason + "): "
         + std::to_string(change.done) + " of " + count(change.done + change.left + change.given_up, "move")
         + " done" + (change.given_up == 0 ? "" : ", " + std::to_string(change.given_up) + " given up");
}

} // namespace

std::vector<hot_expert> hottest_experts(const expert_rows& rows, const cluster_state& cluster, size_t most) {
  std::vector<hot_expert> found;
  for (size_t layer = 0; layer < rows.size(); ++layer) {
    double total = 0;
    for (const double number : rows[layer]) {
      total += number;
    }
    for (size_t expert = 0; expert < rows[layer].size() && total > 0; ++expert) {
      const double times = rows[layer][expert] * static_cast<double>(rows[layer].size()) / total;
      if (times > 1) {
        found.push_back({layer, expert, times, {}});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const hot_expert& a, const hot_expert& b) {
    return std::tuple(-a.times_even, a.layer, a.expert) < std::tuple(-b.times_even, b.layer, b.expert);
  });
  found.resize(std::min(found.size(), most));
  for (hot_expert& one : found) {
    if (one.layer < cluster.hosts.size() && one.expert < cluster.hosts[one.layer].size()) {
      one.hosts = cluster.hosts[one.layer][one.expert];
    }
  }
  return found;
}

overview compare(const sample& before, const sample& after) {
  overview result;
  const cluster_state& cluster = after.cluster;
  result.is_ready = cluster.is_ready;
  result.scheduler = cluster.scheduler_error.empty()
                         ? "term " + text_of(cluster.term)
                         : "the scheduler does not answer: " + cluster.scheduler_error;
  result.running = cluster.assigned;
  result.waiting = cluster.queued;
  const double seconds = std::chrono::duration<double>(after.at - before.at).count();
  if (seconds > 0) {
    const auto of = [&](const char* family) { return rate(before.metrics, after.metrics, family, seconds); };
    result.ended_per_second = of("request_success_total");
    result.refused_per_second = of("admission_rejections_total");
    result.prompt_tokens_per_second = of("prompt_tokens_total");
    result.new_tokens_per_second = of("generation_tokens_total");
    result.first_token = latency_of(before, after, "time_to_first_token_seconds");
    result.between_tokens = latency_of(before, after, "inter_token_latency_seconds");
  }
  result.kv_used = sum_of(cluster, &worker_state::kv_tokens_used);
  result.kv_capacity = sum_of(cluster, &worker_state::kv_capacity_tokens);
  if (after.placement) {
    result.planner = planner_text(*after.placement);
    result.imbalance = after.placement->imbalance;
  } else {
    result.planner = "planner not known";
  }
  result.hottest = hottest_experts(after.recent_rows, cluster, most_hot_experts);
  result.not_read = after.not_read;
  add_silent_processes(result.not_read, after);
  result.workers = worker_lines(before, after);
  return result;
}

} // namespace troupe::top
