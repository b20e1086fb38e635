// How well placements that were planned from the past balance what comes then.
//
//   planner_balance [TRACE.jsonl ...] [--json FILE] [--scale-only]
//
// Each trace (recorded ones: tests/bench/traces, or what troupe-load trace has written; made-up ones besides)
// is cut in half: the first half to place, the second to judge, as in "Towards MoE Deployment", section VII.
// Load is rows, and nothing else counts: no messages, no bytes moved. Numbers are the load of the busiest of
// D devices over the mean, 1 being perfect; each is the mean over layers. "avg" is over windows with a 95 %
// interval (bootstrap over windows), "max" the worst window. Hindsight is our search given the half that it
// is judged by, with the same slots. --json writes what tests/bench/planner_balance.py draws.
//
// Second table: with the default costs of a step, what a plan from a placement that static made would gain
// and move. Third table: time of a plan, by size. The program fails when our search is worse than a rival,
// beyond the 95 % interval of their difference in the same windows.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/planner/plan.hpp"
#include "tests/bench/activation_traces.hpp"

namespace {

using namespace troupe;

constexpr int num_resamples = 2000;

using hosting = expert_table<std::vector<worker_id>>;

double seconds_of(const std::chrono::steady_clock::time_point& start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

planner_input make_input(std::vector<planner_window> windows, std::uint32_t num_devices,
                         std::uint32_t slots) {
  planner_input input;
  for (const auto& rows : windows.at(0).rows)
    input.present.emplace_back(rows.size());
  for (const auto& rows : windows[0].rows)
    input.history.counts.emplace_back(rows.size());
  input.expert_bytes.assign(input.present.size(), 5'500'000);
  for (std::uint32_t device = 1; device <= num_devices; ++device)
    input.workers.push_back({{device}, slots * input.present.size()});
  input.constraints.max_layer_experts = slots;
  for (const auto& window : windows)
    for (std::size_t layer = 0; layer < input.present.size(); ++layer)
      for (std::size_t expert = 0; expert < input.present[layer].size(); ++expert)
        input.history.counts[layer][expert] += window.rows[layer][expert];
  input.history.windows = std::move(windows);
  return input;
}

/// Only balance has a cost.
planner_costs costs_of_load() {
  planner_costs costs;
  costs.expert_ns = 0;
  costs.row_ns = 1;
  costs.message_ns = 0;
  costs.load_ns = 0;
  costs.load_ns_per_byte = 0;
  costs.rows_per_step = 1;
  return costs;
}

hosting hosts_after(const planner_input& input, const placement_plan& planned) {
  auto result = input.present;
  for (const auto& change : planned.changes)
    result[change.expert.layer][change.expert.index] = change.hosts;
  return result;
}

/// [layers][windows] busiest device over the mean
std::vector<std::vector<double>> judge(const hosting& hosts, const std::vector<planner_window>& windows,
                                       std::uint32_t num_devices) {
  std::vector<std::vector<double>> result(hosts.size());
  for (const auto& window : windows)
    for (std::size_t layer = 0; layer < hosts.size(); ++layer) {
      std::vector<double> loads(num_devices);
      for (std::size_t expert = 0; expert < hosts[layer].size(); ++expert)
        for (auto host : hosts[layer][expert])
          loads[host.value - 1] +=
              window.rows[layer][expert] / static_cast<double>(hosts[layer][expert].size());
      const auto sum = std::accumulate(loads.begin(), loads.end(), 0.0);
      result[layer].push_back(*std::max_element(loads.begin(), loads.end()) * num_devices / sum);
    }
  return result;
}

struct verdict {
  std::vector<double> windows; ///< mean over layers
  double average = 0;
  double low = 0; ///< 95 % interval of the average
  double high = 0;
  double worst = 0; ///< each layer's worst window, mean over layers
};

/// Sorted means of resampled windows.
std::vector<double> resampled_means(const std::vector<double>& values) {
  std::mt19937 random{1};
  std::vector<double> means;
  for (int sample = 0; sample < num_resamples; ++sample) {
    double sum = 0;
    for (std::size_t draw = 0; draw < values.size(); ++draw)
      sum += values[random() % values.size()];
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::sort(means.begin(), means.end());
  return means;
}

verdict make_verdict(const std::vector<std::vector<double>>& layers) {
  verdict result;
  result.windows.assign(layers.at(0).size(), 0);
  for (const auto& layer : layers) {
    result.worst += *std::max_element(layer.begin(), layer.end()) / static_cast<double>(layers.size());
    for (std::size_t window = 0; window < layer.size(); ++window)
      result.windows[window] += layer[window] / static_cast<double>(layers.size());
  }
  result.average = std::accumulate(result.windows.begin(), result.windows.end(), 0.0)
                   / static_cast<double>(result.windows.size());
  const auto means = resampled_means(result.windows);
  result.low = means[means.size() / 40];
  result.high = means[means.size() - 1 - means.size() / 40];
  return result;
}

/// -1: `left` is better (less) beyond the 95 % interval of the difference window by window; 1: worse; 0:
/// neither
int compare(const verdict& left, const verdict& right) {
  auto differences = left.windows;
  for (std::size_t window = 0; window < differences.size(); ++window)
    differences[window] -= right.windows[window];
  const auto means = resampled_means(differences);
  if (means[means.size() - 1 - means.size() / 40] < -1e-9)
    return -1;
  return means[means.size() / 40] > 1e-9 ? 1 : 0;
}

struct tally {
  int worse = 0;
  int equal = 0;
  int better = 0;
  int beyond_hindsight = 0;
  int cases = 0;
};

constexpr planner_strategy rivals[] = {planner_strategy::fixed, planner_strategy::greedy,
                                       planner_strategy::anticorrelated, planner_strategy::replicated};

nlohmann::json judge_case(const activation_trace& trace, std::uint32_t num_devices, std::uint32_t slots,
                          tally& sum) {
  const auto half = static_cast<std::ptrdiff_t>(trace.windows.size() / 2);
  const std::vector<planner_window> past{trace.windows.begin(), trace.windows.begin() + half};
  const std::vector<planner_window> future{trace.windows.begin() + half, trace.windows.end()};
  auto input = make_input(past, num_devices, slots);
  input.costs = costs_of_load();
  nlohmann::json record{
      {"trace", trace.name}, {"batch", trace.batch}, {"devices", num_devices}, {"slots", slots}};
  std::map<planner_strategy, verdict> verdicts;
  std::printf("| %-32s | %2u | %2u |", trace.name.c_str(), num_devices, slots);
  const auto print = [&](const std::string& name, const verdict& found) {
    std::printf(" %.3f (%.3f-%.3f) %.2f |", found.average, found.low, found.high, found.worst);
    record["strategies"][name] = {
        {"average", found.average}, {"low", found.low}, {"high", found.high}, {"max", found.worst}};
  };
  for (auto strategy : rivals) {
    verdicts[strategy] =
        make_verdict(judge(hosts_after(input, plan(input, {strategy, {}})), future, num_devices));
    print(std::string{to_string(strategy)}, verdicts[strategy]);
  }
  const auto ours = make_verdict(judge(hosts_after(input, plan(input)), future, num_devices));
  print("search", ours);
  auto knowing = input;
  knowing.history = {{}, future};
  const auto hindsight = make_verdict(judge(hosts_after(knowing, plan(knowing)), future, num_devices));
  std::printf(" %.3f |", hindsight.average);
  record["strategies"]["hindsight"] = {{"average", hindsight.average}, {"max", hindsight.worst}};
  ++sum.cases;
  sum.beyond_hindsight += ours.average > 1.05 * hindsight.average ? 1 : 0;
  std::string signs;
  for (auto strategy : rivals) {
    const auto sign = compare(ours, verdicts[strategy]);
    signs += sign < 0 ? '+' : sign > 0 ? '-' : '=';
    ++(sign < 0 ? sum.better : sign > 0 ? sum.worse : sum.equal);
  }
  std::printf(" %s | %+.1f %% |\n", signs.c_str(), 100 * (ours.average / hindsight.average - 1));
  return record;
}

void print_moves(const activation_trace& trace, std::uint32_t num_devices, std::uint32_t slots) {
  auto input = make_input(trace.windows, num_devices, slots);
  input.costs.rows_per_step =
      8 * static_cast<double>(input.present.at(0).size()); // 64 rows that choose an eighth
  input.present = hosts_after(input, plan(input, {planner_strategy::fixed, {}}));
  const auto present = score(repaired(planning_problem{input}));
  std::printf("| %-32s | %2u | %7.0f |", trace.name.c_str(), num_devices, present.step_ns / 1000);
  for (auto strategy : {planner_strategy::greedy, planner_strategy::replicated, planner_strategy::search}) {
    const auto after = plan(input, {strategy, {}}).after;
    std::printf(" %7.0f %6.1f %3llu |", after.step_ns / 1000, after.messages,
                static_cast<unsigned long long>(after.loads));
  }
  std::printf("\n");
}

void print_scale(std::uint32_t num_devices, std::uint32_t num_windows, bool with_present, double message_ns) {
  const synthetic_shape shape{58, 256, num_windows, 4096};
  const auto trace = drifting_trace(shape, 7);
  auto input = make_input(trace.windows, num_devices, 256);
  for (auto& worker : input.workers)
    worker.max_experts = 58 * (256 + 64) / num_devices + 1;
  input.costs.message_ns = message_ns;
  if (with_present)
    input.present = hosts_after(input, plan(input, {planner_strategy::greedy, {}}));
  const auto start = std::chrono::steady_clock::now();
  const auto planned = plan(input);
  const auto seconds = seconds_of(start);
  std::printf("| %3u | %2u | %-7s | %3.0f | %6.2f | %5.1f | %s | %6.2f | %6.2f | %5.0f | %5.0f | %5llu |\n",
              num_devices, num_windows, with_present ? "greedy" : "nothing", message_ns / 1000, seconds,
              static_cast<double>(planned.search.num_evaluations) / 1e6,
              planned.search.is_optimum ? "yes" : "no ", planned.before.step_ns / 1e6,
              planned.after.step_ns / 1e6, planned.before.messages, planned.after.messages,
              static_cast<unsigned long long>(planned.after.loads));
}

void print_scales() {
  std::printf("\n58 layers of 256 experts, a quarter more slots\n\n| D | windows | from | message us | s | "
              "million evaluations | optimum | "
              "ms a step before | after | messages before | after | loads "
              "|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (std::uint32_t devices : {32U, 100U})
    for (auto with_present : {false, true})
      for (auto message_ns : {0.0, 140'000.0})
        print_scale(devices, 16, with_present, message_ns);
}

int run(const std::vector<std::string>& files, const std::string& json_file) {
  std::vector<activation_trace> traces;
  for (const auto& file : files)
    for (auto& trace : read_traces(file))
      traces.push_back(std::move(trace));
  if (traces.size() > 1) {
    const auto recorded = traces;
    traces.push_back(mixed(recorded));
    traces.push_back(fading(recorded.front(), recorded.back()));
  }
  traces.push_back(zipf_trace({}, 1));
  traces.push_back(drifting_trace({}, 2));
  traces.push_back(correlated_trace({}, 3));
  for (const auto& trace : traces)
    std::printf("%s: %zu windows of %s, %zu layers of %zu experts\n", trace.name.c_str(),
                trace.windows.size(), trace.batch.c_str(), trace.windows.at(0).rows.size(),
                trace.windows[0].rows.at(0).size());
  auto records = nlohmann::json::array();
  tally sum;
  for (auto redundant : {false, true}) {
    std::printf("\n%s. avg (95 %%) max of busiest / mean; + better, = alike, - worse than each rival\n\n",
                redundant ? "A quarter more slots than experts, rounded up to devices"
                          : "As many slots as experts");
    std::printf("| trace | D | slots | static | greedy | anti-correlation | EPLB-like | search | hindsight | "
                "| over it |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const auto& trace : traces)
      for (std::uint32_t devices : {4U, 8U, 16U}) {
        const auto experts = static_cast<std::uint32_t>(trace.windows.at(0).rows.at(0).size());
        const auto places = redundant ? experts + (experts + 3) / 4 : experts;
        records.push_back(judge_case(trace, devices, (places + devices - 1) / devices, sum));
      }
  }
  std::printf("\nsearch against rivals: better %d, alike %d, worse %d; %d of %d cases more than 5 %% over "
              "hindsight\n",
              sum.better, sum.equal, sum.worse, sum.beyond_hindsight, sum.cases);
  std::printf("\nDefault costs, from static: us a step, messages a step, loads\n\n"
              "| trace | D | static | greedy | EPLB-like | search |\n|---|---|---|---|---|---|\n");
  for (const auto& trace : traces)
    for (std::uint32_t devices : {8U, 16U}) {
      const auto experts = static_cast<std::uint32_t>(trace.windows.at(0).rows.at(0).size());
      print_moves(trace, devices, (experts + experts / 4 + devices - 1) / devices);
    }
  print_scales();
  if (!json_file.empty())
    std::ofstream{json_file} << records.dump(1) << '\n';
  return sum.worse == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    std::vector<std::string> files;
    std::string json_file;
    for (int at = 1; at < argc; ++at)
      if (std::string{argv[at]} == "--json" && at + 1 < argc) {
        json_file = argv[++at];
      } else if (std::string{argv[at]} == "--scale-only") {
        print_scales();
        return 0;
      } else {
        files.emplace_back(argv[at]);
      }
    return run(files, json_file);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "planner_balance: %s\n", error.what());
    return 2;
  }
}
