// Rows that each expert has computed, with a bound on how many of them are shown one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Counts by (layer, expert). Shown are the sum of each layer, and each expert that has computed something,
/// as long as those are no more than `max_series`; in a process with more of them, the busiest of each layer.
/// What has been shown once stays, and the bound holds in any case.
class expert_row_counts {
 public:
  static constexpr size_t default_max_series = 4096;
  static constexpr size_t busiest_of_layer = 8;

  explicit expert_row_counts(size_t max_series = default_max_series) : max_series_(max_series) {}

  /// @param rows  [experts of the layer]. Thread-safe
  void add(size_t layer, std::span<const uint64_t> rows);

  /// Brings the series up to date. One thread at a time.
  void show(registry& families);

 private:
  using counts = std::vector<std::vector<uint64_t>>; ///< [layer][expert]

  /// Those of a layer that are to be shown beside those that are, busiest first.
  std::vector<size_t> to_show(const std::vector<uint64_t>& rows,
                              const std::vector<prometheus::Counter*>& shown, bool all) const;

  const size_t max_series_;
  std::mutex mutex_;
  counts rows_;

  // Of whoever shows.
  std::vector<std::vector<prometheus::Counter*>> series_; ///< [layer][expert]; null: not shown
  size_t num_series_ = 0;
};

} // namespace troupe::metrics
