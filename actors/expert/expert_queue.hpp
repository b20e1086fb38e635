// The expert batches that wait in one host: which layer runs next, and with what company.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "actors/defaults.hpp"

namespace troupe {

/// One queue per layer. The layer of the batch that has waited longest runs next, with everything else that
/// waits for the same layer, up to a bound: so all layers are served in turn, and rows of different senders
/// share one pass over the weights.
class expert_queue {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct limits {
    /// (row, expert) pairs that may wait; one batch always may
    uint32_t max_queued_rows = defaults::max_queued_expert_rows;
    uint32_t max_step_rows = 8192; ///< of one step; a larger batch runs alone
    std::chrono::microseconds linger{0};
  };

  /// Names a batch for the caller.
  using ticket = uint64_t;

  expert_queue(uint32_t num_layers, limits config);

  /// @returns false when the queue is too full
  bool add(ticket batch, uint32_t layer, uint32_t num_rows, time_point now);

  /// Takes the batches of the next step, or none when nothing waits or all that waits still lingers for
  /// company.
  std::vector<ticket> next(time_point now, uint32_t& layer);

  /// When the first lone batch will have lingered long enough; empty when nothing lingers.
  std::optional<time_point> lingers_until() const;

  uint64_t queued_rows() const { return queued_rows_; }

 private:
  struct entry {
    ticket batch = 0;
    uint32_t num_rows = 0;
    time_point arrived;
  };

  /// When a layer's batches may run: at once in company, else after lingering.
  time_point ready_at(const std::deque<entry>& queue) const;

  limits limits_;
  std::vector<std::deque<entry>> layers_;
  uint64_t queued_rows_ = 0;
};

} // namespace troupe
