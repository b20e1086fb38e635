// Many schedules, spread over child processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/simulation/schedule.hpp"

namespace troupe::simulation {

struct series_options {
  schedule_options each; ///< but for the seed
  uint64_t first_seed = 1;
  uint64_t schedules = 1000;
  uint32_t jobs = 1; ///< child processes
};

struct series_result {
  struct failure {
    uint64_t seed = 0;
    std::string what; ///< the first violation, or how the child has died
  };

  std::vector<failure> failures{}; ///< ascending by seed; each child stops at its third
  uint64_t schedules = 0;          ///< that were run to the end
  uint64_t requests = 0;
  uint64_t refused = 0;
  uint64_t messages = 0;
  double virtual_seconds = 0;
};

/// A child that crashes, or is a minute at one schedule, costs what it has left, and is a failure of the seed
/// that it was at.
/// @throws std::system_error when no child can be started
series_result run_series(const series_options& options);

} // namespace troupe::simulation
