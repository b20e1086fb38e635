// How many expert workers there should be. The number depends on the demand and not on the present workers,
// so an extra worker during a replacement does not raise it. Pure: time is a parameter.
//
// It is the largest of three: workers for the experts' computing time, workers for the memory of all copies,
// and the hosts that each expert must have. It grows with the mean load of a minute. It shrinks when less was
// enough for five minutes, with a margin.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace troupe {

struct wanted_workers_limits {
  double utilization = 0.6;             ///< target share of computing in a worker's time
  double margin = 0.8;                  ///< of that share; below it, one worker fewer is enough
  std::chrono::seconds load_window{60}; ///< over which load is averaged
  std::chrono::seconds hold{300};       ///< before the first number, and before a lower one
};

class wanted_workers {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct look {
    std::optional<double> load;     ///< computing time per second, in workers; empty: not measured
    std::uint64_t num_copies = 0;   ///< wanted copies of all experts
    std::uint64_t worker_room = 0;  ///< copies that a typical worker can hold
    std::uint32_t num_replicas = 1; ///< hosts that each expert must have
    std::uint32_t num_workers = 0;  ///< possible hosts now
    bool is_settled = false;        ///< every expert is in its place
  };

  explicit wanted_workers(wanted_workers_limits limits = {}) : limits_(limits) {}

  /// @returns empty until the first number is known
  std::optional<std::uint32_t> observe(const look& seen, time_point now);

  std::optional<std::uint32_t> current() const { return wanted_; }

 private:
  struct estimate {
    time_point at;
    std::uint32_t to_grow = 0; ///< needed workers
    std::uint32_t to_keep = 0; ///< needed with the margin, or kept because the need is unknown
  };

  double mean_load(const look& seen, time_point now);

  wanted_workers_limits limits_;
  std::deque<std::pair<time_point, double>> loads_; ///< of the load window
  std::deque<estimate> estimates_;                  ///< within the hold time
  std::optional<time_point> since_;                 ///< start of the estimates that count
  std::optional<std::uint32_t> wanted_;
};

} // namespace troupe
