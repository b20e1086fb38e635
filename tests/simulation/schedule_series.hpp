// Many schedules, spread over child processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/schedule.hpp"

namespace troupe::simulation {

struct series_options {
  schedule_options each; ///< but for the seed
  std::uint64_t first_seed = 1;
  std::uint64_t schedules = 1000;
  std::uint32_t jobs = 1; ///< child processes
};

struct series_result {
  struct failure {
    std::uint64_t seed = 0;
    std::string what; ///< the first violation, or how the child has died
  };

  std::vector<failure> failures{}; ///< ascending by seed; each child stops at its third
  std::uint64_t schedules = 0;     ///< that were run to the end
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;
  std::uint64_t messages = 0;
  double virtual_seconds = 0;
};

/// A child that crashes, or is a minute at one schedule, costs what it has left, and is a failure of the seed
/// that it was at.
/// @throws std::system_error when no child can be started
series_result run_series(const series_options& options);

} // namespace troupe::simulation
