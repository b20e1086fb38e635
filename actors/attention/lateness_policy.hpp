// How long an expert batch should take, when to send its rows to a second host, and when to send them once
// more.
#pragma once

#include <chrono>
#include <cstdint>

#include "actors/protocol/defaults.hpp"

namespace troupe {

/// A slow host is measured against the averages over all hosts. A late batch is hedged: its rows go to a
/// replica as well. One that is far too late is sent once more, as its host may have lost it.
///
/// Hedges draw on a token bucket: each batch that is sent adds a share of a hedge, and at most one window of
/// batches is saved. So one slow host is hedged at once; when all hosts are overloaded, hedges add no more
/// than their share to the load.
class lateness_policy {
 public:
  using duration = std::chrono::nanoseconds;

  /// A batch was sent, hedges included.
  void sent();

  /// A batch was answered.
  void answered(std::uint64_t num_rows, duration elapsed);

  /// Expected time between sending a batch and its answer.
  duration expected(std::uint64_t num_rows) const;

  /// Age at which a batch may be hedged.
  duration hedge_after(std::uint64_t num_rows) const;

  /// Age at which a batch is sent once more: in proportion to the expected time, within
  /// [expert_batch_timeout, unhosted_wait]. @param repeats  batches of the layer that were sent once more;
  /// each doubles the age
  duration patience(std::uint64_t num_rows, std::uint32_t repeats) const;

  /// Whether the budget allows a hedge now.
  bool may_hedge() const { return budget_ >= defaults::batches_per_hedge; }

  /// A batch was hedged by `copies` batches, since its rows may go to several hosts. Copies beyond the budget
  /// are paid back before the next hedge.
  void hedged(std::uint64_t copies) {
    budget_ -= defaults::batches_per_hedge * static_cast<std::int64_t>(copies);
  }

 private:
  std::int64_t budget_ = defaults::hedge_window; // a hedge costs batches_per_hedge
  double row_ns_ = 0;                            // moving averages over the batches of all hosts
  double batch_ns_ = 0;
};

} // namespace troupe
