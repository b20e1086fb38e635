#include "tests/simulation/fault.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;

struct description {
  fault_kind kind;
  const char* name;
  duration least; ///< that it lasts
  duration most;
};

// Shorter than what a new request waits for a scheduler where no other machine can answer it; longer than
// what connections, leases and hung engines are given, where another machine can.
constexpr std::array descriptions{
    description{fault_kind::kill, "kill", 20ms, 420ms},
    description{fault_kind::lose, "lose", 20ms, 3s},
    description{fault_kind::restart, "restart", 20ms, 420ms},
    description{fault_kind::stop, "stop", 20ms, 5s},
    description{fault_kind::depose, "depose", 2s, 6s},
    description{fault_kind::hang, "hang", 100ms, 40s},
    description{fault_kind::slow_engine, "slow-engine", 100ms, 3s},
    description{fault_kind::cut, "cut", 20ms, 5s},
    description{fault_kind::part, "part", 20ms, 5s},
    description{fault_kind::reset, "reset", 0ms, 0ms},
    description{fault_kind::slow_link, "slow-link", 100ms, 3s},
    description{fault_kind::move, "move", 0ms, 0ms},
};

const description& description_of(fault_kind kind) {
  return *std::find_if(descriptions.begin(), descriptions.end(),
                       [kind](const auto& one) { return one.kind == kind; });
}

bool has_engine(const std::string& machine) {
  return machine.find('-') != std::string::npos;
}

bool is_of_two(fault_kind kind) {
  return kind == fault_kind::cut || kind == fault_kind::part || kind == fault_kind::reset
         || kind == fault_kind::slow_link;
}

std::string seconds(duration time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f s", std::chrono::duration<double>(time).count());
  return text.data();
}

void later(cluster& to, duration pause, std::function<void()> what) {
  to.around().plans().after(pause, std::move(what));
}

bool end_for(cluster& to, const fault& what, ending how) {
  if (!to.is_up(what.one))
    return false;
  to.end(what.one, how);
  later(to, what.lasts, [&to, machine = what.one] { to.start(machine); });
  return true;
}

bool restart(cluster& to, const fault& what) {
  if (!to.is_up(what.one))
    return false;
  to.retire(what.one, [&to, machine = what.one, pause = what.lasts] {
    later(to, pause, [&to, machine] { to.start(machine); });
  });
  return true;
}

bool stop(cluster& to, const fault& what) {
  auto* const process = to.around().find(what.one);
  if (process == nullptr || !process->runs())
    return false;
  process->stop();
  later(to, what.lasts, [gate = process->gate()] { gate->go_on(); });
  return true;
}

/// For as long as it lasts, if the process lives so long.
bool trouble_engine(cluster& to, const fault& what, const std::function<void(simulated_device&)>& begin,
                    const std::function<void(simulated_device&)>& mend) {
  auto* const device = to.device_of(what.one);
  if (device == nullptr)
    return false;
  begin(*device);
  later(to, what.lasts, [&to, machine = what.one, mend, gate = to.around().find(what.one)->gate()] {
    if (!gate->is_dead())
      mend(*to.device_of(machine));
  });
  return true;
}

void cut(cluster& to, const std::string& from, const std::string& at, duration lasts) {
  auto& links = to.around().links();
  links.cut(from, at);
  later(to, lasts, [&links, from, at] { links.heal(from, at); });
}

void slow_down(cluster& to, const fault& what) {
  auto& links = to.around().links();
  for (const auto& [from, at] : {std::pair{what.one, what.other}, std::pair{what.other, what.one}}) {
    links.slow_down(from, at, what.factor);
    later(to, what.lasts, [&links, from = from, at = at] { links.slow_down(from, at, 1); });
  }
}

} // namespace

const char* name_of(fault_kind kind) {
  return description_of(kind).name;
}

const std::vector<fault_kind>& all_fault_kinds() {
  static const auto kinds = [] {
    std::vector<fault_kind> result;
    for (const auto& one : descriptions)
      result.push_back(one.kind);
    return result;
  }();
  return kinds;
}

std::string in_words(const fault& what) {
  const auto both = what.one + " and " + what.other;
  const auto again = seconds(what.lasts);
  switch (what.kind) {
  case fault_kind::kill:
    return what.one + " is killed, and starts again after " + again;
  case fault_kind::lose:
    return "the machine of " + what.one + " fails without a word, and is back after " + again;
  case fault_kind::restart:
    return what.one + " leaves in order, and starts again " + again + " after it has ended";
  case fault_kind::stop:
    return what.one + " is stopped, and goes on after " + again;
  case fault_kind::depose:
    return what.one + " is stopped for longer than its lease, and goes on after " + again;
  case fault_kind::hang:
    return "the engine of " + what.one + " hangs for " + again;
  case fault_kind::slow_engine:
    return "the engine of " + what.one + " takes " + std::to_string(what.factor) + " times as long for "
           + again;
  case fault_kind::cut:
    return "nothing gets from " + what.one + " to " + what.other + " for " + again;
  case fault_kind::part:
    return "nothing gets from " + what.one + " to " + what.other + " or back for " + again;
  case fault_kind::reset:
    return "the connections between " + both + " break";
  case fault_kind::slow_link:
    return "everything between " + both + " takes " + std::to_string(what.factor) + " times as long for "
           + again;
  case fault_kind::move:
    return "every expert is to change its hosts";
  }
  return {};
}

std::vector<fault> draw_faults(dice& random, const cluster& of, std::uint32_t count,
                               const std::vector<fault_kind>& kinds, duration within) {
  const auto machines = of.machines();
  const auto any = [&random](const std::vector<std::string>& names) {
    return names[random.below(static_cast<std::uint32_t>(names.size()))];
  };
  std::vector<std::string> engines;
  std::copy_if(machines.begin(), machines.end(), std::back_inserter(engines), has_engine);
  std::vector<fault> result;
  for (std::uint32_t i = 0; i < count; ++i) {
    fault next;
    next.kind = kinds[random.below(static_cast<std::uint32_t>(kinds.size()))];
    const auto& known = description_of(next.kind);
    next.at = random.up_to(within);
    next.depth = random.below(40);
    // Short ones are as likely as long ones.
    next.lasts = random.one_in(2) ? random.between(known.least, known.least + (known.most - known.least) / 10)
                                  : random.between(known.least, known.most);
    next.factor = 2U << random.below(5);
    next.one =
        next.kind == fault_kind::hang || next.kind == fault_kind::slow_engine ? any(engines) : any(machines);
    if (next.kind == fault_kind::depose)
      next.one = "scheduler";
    if (is_of_two(next.kind))
      do
        next.other = any(machines);
      while (next.other == next.one);
    result.push_back(std::move(next));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& one, const auto& other) { return one.at < other.at; });
  return result;
}

fault aimed_at_process(const cluster& to, fault what) {
  if (!is_of_two(what.kind))
    what.one = to.with_process(what.one);
  return what;
}

bool apply(cluster& to, const fault& what) {
  switch (what.kind) {
  case fault_kind::kill:
    return end_for(to, what, ending::killed);
  case fault_kind::lose:
    return end_for(to, what, ending::lost);
  case fault_kind::restart:
    return restart(to, what);
  case fault_kind::stop:
  case fault_kind::depose:
    return stop(to, what);
  case fault_kind::hang:
    return trouble_engine(
        to, what, [](auto& device) { device.hang(); }, [](auto& device) { device.resume(); });
  case fault_kind::slow_engine:
    return trouble_engine(
        to, what, [factor = what.factor](auto& device) { device.slow_down(factor); },
        [](auto& device) { device.slow_down(1); });
  case fault_kind::cut:
    cut(to, what.one, what.other, what.lasts);
    return true;
  case fault_kind::part:
    cut(to, what.one, what.other, what.lasts);
    cut(to, what.other, what.one, what.lasts);
    return true;
  case fault_kind::reset:
    to.around().links().reset(what.one, what.other);
    return true;
  case fault_kind::slow_link:
    slow_down(to, what);
    return true;
  case fault_kind::move:
    to.move_everything();
    return true;
  }
  return false;
}

} // namespace troupe::simulation
