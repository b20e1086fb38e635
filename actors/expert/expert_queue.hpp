// The expert batches that wait in one host: which layer runs next, and which batches share its step.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "actors/protocol/defaults.hpp"

namespace troupe {

/// One queue per layer. The layer of the batch that has waited longest runs next, with all other batches of
/// that layer up to a bound. So all layers are served in turn, and rows of different senders share one pass
/// over the weights.
class expert_queue {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct limits {
    /// Most (row, expert) pairs that wait; a single batch may have more.
    std::uint32_t max_queued_rows = defaults::max_queued_expert_rows;
    std::uint32_t max_step_rows = 8192;  ///< bound of a step; a larger batch runs alone
    std::chrono::microseconds linger{0}; ///< how long a lone batch waits for others of its layer
  };

  /// The caller's number of a batch.
  using ticket = std::uint64_t;

  expert_queue(std::uint32_t num_layers, limits config);

  /// @returns false if the queue is too full
  bool add(ticket batch, std::uint32_t layer, std::uint32_t num_rows, time_point now);

  /// Takes the batches of the next step; none if no batch waits or all still linger.
  std::vector<ticket> next(time_point now, std::uint32_t& layer);

  /// When the first lone batch will have lingered long enough; empty if no batch waits.
  std::optional<time_point> lingers_until() const;

  std::uint64_t queued_rows() const { return queued_rows_; }

 private:
  struct entry {
    ticket batch = 0;
    std::uint32_t num_rows = 0;
    time_point arrived;
  };

  /// When a layer's batches may run: several at once, a lone one after lingering.
  time_point ready_at(const std::deque<entry>& queue) const;

  limits limits_;
  std::vector<std::deque<entry>> layers_;
  std::uint64_t queued_rows_ = 0;
};

} // namespace troupe
