// What goes wrong in a simulated cluster, when, and for how long.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/agenda.hpp"
#include "tests/simulation/cluster.hpp"
#include "tests/simulation/dice.hpp"

namespace troupe::simulation {

enum class fault_kind : std::uint8_t {
  kill,        ///< a process ends as by `kill -9`, and starts again
  lose,        ///< a machine is gone without a word, and comes back
  restart,     ///< a process leaves in order, and starts again
  stop,        ///< a process is stopped and goes on (SIGSTOP, SIGCONT)
  depose,      ///< the scheduler is stopped for longer than its lease, and goes on
  hang,        ///< an engine computes nothing, while its process answers
  slow_engine, ///< an engine takes several times as long
  cut,         ///< nothing gets from one machine to another, the other way it does
  part,        ///< nothing gets either way
  reset,       ///< the connections between two machines break
  slow_link,   ///< everything between two machines takes several times as long
  move,        ///< every expert changes its hosts
};

/// "kill", "slow-engine", ...
const char* name_of(fault_kind kind);

/// All of them, in the order of their declaration.
const std::vector<fault_kind>& all_fault_kinds();

struct fault {
  fault_kind kind = fault_kind::kill;
  duration at{};            ///< since the cluster was ready
  duration lasts{};         ///< until it is mended
  std::string one{};        ///< machine
  std::string other{};      ///< of cut, part, reset, slow_link
  std::uint32_t factor = 1; ///< of slow_engine, slow_link
  std::uint32_t depth = 0;  ///< messages handled between its time and itself
};

/// A sentence without its time: "expert-0 is killed, and starts again after 0.310 s".
std::string in_words(const fault& what);

/// Draws faults of these kinds within `within`.
std::vector<fault> draw_faults(dice& random, const cluster& of, std::uint32_t count,
                               const std::vector<fault_kind>& kinds, duration within);

/// What is done to a scheduler that only waits is done to the one that leads.
fault aimed_at_process(const cluster& to, fault what);

/// Does it to the cluster, and plans that it is mended.
/// @returns false when it cannot be done now: a process that is dead is not killed again
bool apply(cluster& to, const fault& what);

} // namespace troupe::simulation
