// GET and POST /cluster/placement: what the rebalancer does. A gateway writes these pages; `troupe placement`
// and `troupe top` read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/pages/page_part.hpp"

namespace troupe::pages {

/// What a placement costs by the planner's model, for one step.
struct step_part {
  double step_us = 0;
  double busiest_us = 0; ///< the part that the busiest workers take
  double messages = 0;
  double max_share = 0; ///< of a layer's load on its busiest worker

  TROUPE_PAGE_PART(step_us, busiest_us, messages, max_share)
};

struct move_part {
  std::uint32_t layer = 0;
  std::uint32_t expert = 0;
  std::vector<std::string> from;
  std::vector<std::string> to;

  TROUPE_PAGE_PART(layer, expert, from, to)
};

/// How far a change has come.
struct progress_part {
  std::uint64_t id = 0;
  std::string reason;
  std::uint64_t moves = 0;
  std::uint64_t bytes = 0;
  std::uint64_t moves_done = 0;
  std::uint64_t moves_given_up = 0;
  std::uint64_t moves_left = 0;
  std::uint64_t elapsed_ms = 0;
  std::optional<std::vector<move_part>> in_flight; ///< no value: none is left, or an earlier release answers
  step_part before;
  step_part after;

  TROUPE_PAGE_PART(id, reason, moves, bytes, moves_done, moves_given_up, moves_left, elapsed_ms, in_flight,
                   before, after)
};

struct pin_part {
  std::uint32_t layer = 0;
  std::uint32_t expert = 0;
  std::vector<std::string> hosts;

  TROUPE_PAGE_PART(layer, expert, hosts)
};

struct replicas_part {
  std::uint32_t layer = 0;
  std::uint32_t expert = 0;
  std::uint32_t replicas = 0;

  TROUPE_PAGE_PART(layer, expert, replicas)
};

struct placement_page {
  std::string planner;            ///< "on", "off" or "paused"
  nullable<progress_part> change; ///< under way
  nullable<progress_part> last;
  std::vector<pin_part> pins;
  std::vector<replicas_part> replicas;
  std::vector<std::string> drained;
  nullable<double> imbalance; ///< the busiest workers' time over that of an even load
  nullable<std::uint64_t> wanted_workers;

  TROUPE_PAGE_PART(planner, change, last, pins, replicas, drained, imbalance, wanted_workers)
};

/// The answer to a command: what it has begun, or would.
struct change_page {
  std::uint64_t change = 0; ///< 0: nothing is to be done, or a dry run
  bool dry_run = false;
  std::string reason;
  std::uint64_t moves = 0; ///< experts that workers have to load
  std::uint64_t bytes = 0; ///< of these
  step_part before;
  step_part after;
  std::vector<move_part> experts;

  TROUPE_PAGE_PART(change, dry_run, reason, moves, bytes, before, after, experts)
};

} // namespace troupe::pages
