// troupe-simulate: seeded schedules of a cluster on a virtual network, one after another.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "services/options/option_parser.hpp"
#include "services/options/processors.hpp"
#include "tests/simulation/schedule.hpp"
#include "tests/simulation/schedule_series.hpp"

namespace troupe::simulation {

namespace {

struct simulate_options {
  std::uint32_t seed = 0;
  std::uint32_t schedules = 1000;
  std::uint32_t first_seed = 1;
  std::uint32_t steps = 0;
  std::uint32_t jobs = 1;
  std::vector<std::string> faults;
};

std::string names_of_faults() {
  std::string result;
  for (const auto kind : all_fault_kinds())
    result += (result.empty() ? "" : ", ") + std::string{name_of(kind)};
  return result;
}

fault_kind parse_fault(const std::string& name, const std::string& source) {
  const auto& kinds = all_fault_kinds();
  const auto found =
      std::find_if(kinds.begin(), kinds.end(), [&](const auto kind) { return name == name_of(kind); });
  if (found == kinds.end())
    throw option_error(source + ": '" + name + "' is no fault; known are " + names_of_faults());
  return *found;
}

/// How to see one schedule again.
std::string command_for(std::uint64_t seed, const simulate_options& o) {
  auto result = "troupe-simulate --seed " + std::to_string(seed);
  if (o.steps > 0)
    result += " --steps " + std::to_string(o.steps);
  for (const auto& name : o.faults)
    result += " --fault " + name;
  return result;
}

int show_one(schedule_options schedule, std::uint64_t seed) {
  schedule.seed = seed;
  const auto result = run_schedule(schedule);
  for (const auto& line : result.history)
    std::cout << line << '\n';
  std::cout << (result.violations.empty() ? "all is well" : "VIOLATED") << " after " << result.messages
            << " messages\n";
  return result.violations.empty() ? 0 : 1;
}

int run_many(const schedule_options& schedule, const simulate_options& o) {
  const auto began = std::chrono::steady_clock::now();
  const auto total = run_series({schedule, o.first_seed, o.schedules, o.jobs});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  for (const auto& failure : total.failures) {
    std::cout << "seed " << failure.seed << ": " << failure.what
              << "\n  see it with: " << command_for(failure.seed, o) << '\n';
  }
  std::cout << total.schedules << " schedules, " << total.requests << " requests (" << total.refused
            << " told that the cluster is not ready), " << total.messages << " messages, "
            << static_cast<std::uint64_t>(total.virtual_seconds) << " s of virtual time in "
            << static_cast<std::uint64_t>(took.count())
            << " s: " << (total.failures.empty() ? "all is well" : "VIOLATED") << '\n';
  return total.failures.empty() ? 0 : 1;
}

int simulate(const std::vector<std::string>& arguments) {
  simulate_options o;
  o.jobs = available_processors();
  option_parser parser("troupe-simulate",
                       "Runs a small cluster on a virtual network and clock, with requests and faults drawn "
                       "from a seed, and checks that no request is lost.");
  parser.number("seed", "run only this seed, and print what happens; 0: run many", &o.seed, 0, ~0U);
  parser.number("schedules", "number of schedules to run", &o.schedules, 1, ~0U);
  parser.number("first-seed", "seed of the first schedule; the others follow", &o.first_seed, 1, ~0U);
  parser.number("steps", "number of faults per schedule; 0: one to five", &o.steps, 0, 1000);
  parser.list("fault", "NAME", "draw from these faults alone: " + names_of_faults() + "; default: all",
              &o.faults, [](const std::string& entry, const std::string& source) {
                parse_fault(entry, source);
                return entry;
              });
  parser.number("jobs", "number of schedules to run in parallel", &o.jobs, 1, 1024);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  schedule_options schedule;
  schedule.num_faults = o.steps;
  if (!o.faults.empty()) {
    schedule.kinds.clear();
    for (const auto& name : o.faults)
      schedule.kinds.push_back(parse_fault(name, "--fault"));
  }
  return o.seed > 0 ? show_one(schedule, o.seed) : run_many(schedule, o);
}

} // namespace

} // namespace troupe::simulation

int main(int argc, char** argv) {
  try {
    return troupe::simulation::simulate({argv + 1, argv + argc});
  } catch (const troupe::option_error& error) {
    std::cerr << "troupe-simulate: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "troupe-simulate: " << error.what() << '\n';
    return 1;
  }
}
