// Counts the rows that each expert has computed, with a bound on the experts shown separately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Counts by (layer, expert). It shows the sum of each layer, and each expert that has computed something, up
/// to `max_series` experts; beyond that, only the busiest of each layer. A series once shown stays, and the
/// bound always holds.
class expert_row_counts {
 public:
  static constexpr std::size_t default_max_series = 4096;
  static constexpr std::size_t busiest_of_layer = 8;

  explicit expert_row_counts(std::size_t max_series = default_max_series) : max_series_(max_series) {}

  /// @param rows  [experts of the layer]. Thread-safe
  void add(std::size_t layer, std::span<const std::uint64_t> rows);

  /// Updates the series. One thread at a time.
  void show(registry& families);

 private:
  using counts = std::vector<std::vector<std::uint64_t>>; ///< [layer][expert]

  /// The experts of a layer to be added to those shown, busiest first.
  std::vector<std::size_t> to_show(const std::vector<std::uint64_t>& rows,
                                   const std::vector<prometheus::Counter*>& shown, bool all) const;

  const std::size_t max_series_;
  std::mutex mutex_;
  counts rows_;

  // For the thread in show().
  std::vector<std::vector<prometheus::Counter*>> series_; ///< [layer][expert]; null: not shown
  std::size_t num_series_ = 0;
};

} // namespace troupe::metrics
