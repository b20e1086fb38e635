#include "services/top/overview.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "services/top/interval_figures.hpp"

namespace troupe::top {

namespace {

/// Beyond what is normal: a lease is renewed each 500 ms and ends after 2 s.
constexpr std::uint64_t late_lease_ms = 1000;
/// A step takes milliseconds.
constexpr std::uint64_t long_step_ms = 1000;
constexpr std::size_t most_hot_experts = 8;

std::string seconds_text(std::uint64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  return text;
}

latency latency_of(const sample& before, const sample& after, const char* family) {
  const auto seen = observations(before.metrics, after.metrics, family);
  return {quantile(seen, 0.5), quantile(seen, 0.99)};
}

pages::load_part load_of(const pages::worker_part& worker) {
  return worker.load.value_or(pages::load_part{});
}

std::string state_of(const pages::worker_part& worker, const pages::placement_page* placement) {
  if (worker.lease_age_ms.value_or(0) > late_lease_ms)
    return "silent for " + seconds_text(*worker.lease_age_ms);
  if (const auto step_ms = load_of(worker).oldest_step_ms.value_or(0); step_ms > long_step_ms)
    return "in a step for " + seconds_text(step_ms);
  if (placement != nullptr) {
    const auto& drained = placement->drained;
    if (std::find(drained.begin(), drained.end(), worker.name) != drained.end())
      return worker.hosted && worker.hosted->empty() ? "drained" : "draining";
  }
  return worker.lease_age_ms ? "ok" : "not known";
}

/// The names of an expert's hosts; none where the page does not say.
std::vector<std::string> hosts_of(const pages::cluster_page& cluster, std::size_t layer, std::size_t expert) {
  const auto& layers = cluster.placement.layers;
  if (!layers || layer >= layers->size() || expert >= (*layers)[layer].experts.size())
    return {};
  return (*layers)[layer].experts[expert];
}

/// Rows that each worker gets when an expert's rows are shared evenly by its hosts.
std::map<std::string, double> rows_by_worker(const expert_rows& rows, const pages::cluster_page& cluster) {
  std::map<std::string, double> result;
  for (std::size_t layer = 0; layer < rows.size(); ++layer)
    for (std::size_t expert = 0; expert < rows[layer].size(); ++expert) {
      const auto hosts = hosts_of(cluster, layer, expert);
      for (const std::string& host : hosts)
        result[host] += rows[layer][expert] / static_cast<double>(hosts.size());
    }
  return result;
}

using known_count = pages::count;

std::optional<double> share_of(known_count part, known_count all) {
  if (!part || all.value_or(0) == 0)
    return std::nullopt;
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
template <class Figure>
known_count sum_of(const pages::cluster_page& cluster, Figure figure) {
  known_count sum;
  for (const auto& worker : cluster.workers)
    if (worker.role == "attention") {
      const known_count own = figure(worker);
      if (!own)
        return std::nullopt;
      sum = sum.value_or(0) + *own;
    }
  return sum;
}

std::string count(std::uint64_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

/// Processors that a process has kept busy between its own two answers: each answers in its own time.
std::optional<double> processors_of(const process_state& before, const process_state& after) {
  if (!before.answered_at || !after.answered_at || !before.cpu_seconds || !after.cpu_seconds)
    return std::nullopt;
  const double seconds = std::chrono::duration<double>(*after.answered_at - *before.answered_at).count();
  if (seconds <= 0)
    return std::nullopt;
  const bool is_new = before.started && after.started && *before.started != *after.started;
  return (is_new ? *after.cpu_seconds : increase(*before.cpu_seconds, *after.cpu_seconds)) / seconds;
}

/// CPU time and memory of a process.
void add_process(worker_line& line, const std::string& name, const sample& before, const sample& after) {
  const auto last = after.processes.find(name);
  if (last == after.processes.end())
    return;
  line.resident_bytes = last->second.resident_bytes;
  if (const auto first = before.processes.find(name); first != before.processes.end())
    line.processors = processors_of(first->second, last->second);
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
  for (const auto& [name, number] : rows)
    all_rows += number;
  std::uint64_t all_running = 0;
  for (const auto& worker : of.cluster.workers)
    if (worker.role == "attention")
      all_running += load_of(worker).running.value_or(0);
  std::vector<worker_line> lines;
  for (const auto& worker : of.cluster.workers) {
    const pages::load_part load = load_of(worker);
    worker_line line;
    line.name = worker.name;
    line.role = worker.role;
    line.state = state_of(worker, of.placement ? &*of.placement : nullptr);
    line.running = text_of(load.running);
    line.waiting = load.waiting;
    if (worker.role == "attention") {
      line.running = part_text(load.running, worker.max_num_seqs);
      line.load = share_of(load.running, all_running);
      if (load.kv_tokens_used || worker.kv_capacity_tokens)
        line.memory = part_text(load.kv_tokens_used, worker.kv_capacity_tokens) + " KV tokens";
    } else if (worker.role == "expert") {
      if (const auto own = rows.find(worker.name); all_rows > 0)
        line.load = own == rows.end() ? 0 : own->second / all_rows;
      if (worker.hosted)
        line.memory = count(worker.hosted->size(), "expert");
    }
    lines.push_back(std::move(line));
  }
  add_other_processes(lines, of);
  for (worker_line& line : lines)
    add_process(line, line.name, before, of);
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
  std::size_t others = 0;
  for (const auto& [name, process] : of.processes) {
    if (!process.error.empty()) {
      others += first.empty() ? 0 : 1;
      first = first.empty() ? process.error : first;
    }
  }
  if (!first.empty())
    not_read.push_back(first + (others == 0 ? "" : " (and " + std::to_string(others) + " more)"));
}

std::string planner_text(const pages::placement_page& placement) {
  std::string text = "planner " + placement.planner;
  if (!placement.change)
    return text + ", no moves";
  const pages::progress_part& change = *placement.change;
  return text + ", change " + std::to_string(change.id) + " (" + change.reason
         + "): " + std::to_string(change.moves_done) + " of "
         + count(change.moves_done + change.moves_left + change.moves_given_up, "move") + " done"
         + (change.moves_given_up == 0 ? "" : ", " + std::to_string(change.moves_given_up) + " given up");
}

/// Tokens that attention workers had, of all tokens of the sequences that they started in between; nothing
/// where none started.
std::optional<double> prefix_hits(const sample& before, const sample& after) {
  std::map<std::string, pages::load_part> earlier;
  for (const auto& worker : before.cluster.workers)
    earlier[worker.id] = load_of(worker);
  double queries = 0;
  double hits = 0;
  for (const auto& worker : after.cluster.workers) {
    const auto grown = [&](known_count pages::load_part::*counter) {
      return increase(static_cast<double>((earlier[worker.id].*counter).value_or(0)),
                      static_cast<double>((load_of(worker).*counter).value_or(0)));
    };
    queries += grown(&pages::load_part::prefix_queries);
    hits += grown(&pages::load_part::prefix_hits);
  }
  if (queries <= 0)
    return std::nullopt;
  return hits / queries;
}

} // namespace

std::vector<hot_expert> hottest_experts(const expert_rows& rows, const pages::cluster_page& cluster,
                                        std::size_t most) {
  std::vector<hot_expert> found;
  for (std::size_t layer = 0; layer < rows.size(); ++layer) {
    double total = 0;
    for (const double number : rows[layer])
      total += number;
    for (std::size_t expert = 0; expert < rows[layer].size() && total > 0; ++expert) {
      const double times = rows[layer][expert] * static_cast<double>(rows[layer].size()) / total;
      if (times > 1)
        found.push_back({layer, expert, times, {}});
    }
  }
  std::sort(found.begin(), found.end(), [](const hot_expert& a, const hot_expert& b) {
    return std::tuple(-a.times_even, a.layer, a.expert) < std::tuple(-b.times_even, b.layer, b.expert);
  });
  found.resize(std::min(found.size(), most));
  for (hot_expert& one : found)
    one.hosts = hosts_of(cluster, one.layer, one.expert);
  return found;
}

overview compare(const sample& before, const sample& after) {
  overview result;
  const pages::cluster_page& cluster = after.cluster;
  result.is_ready = cluster.ready;
  result.scheduler = cluster.scheduler.reachable ? "term " + text_of(cluster.scheduler.term)
                                                 : "the scheduler does not answer: "
                                                       + cluster.scheduler.error.value_or("no reason given");
  result.running = cluster.scheduler.assigned;
  result.waiting = cluster.scheduler.queued;
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
  result.kv_used = sum_of(cluster, [](const auto& worker) { return load_of(worker).kv_tokens_used; });
  result.kv_capacity = sum_of(cluster, [](const auto& worker) { return worker.kv_capacity_tokens; });
  result.prefix_hits = prefix_hits(before, after);
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
