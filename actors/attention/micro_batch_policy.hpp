// How many micro-batches are in flight at once: whether computing attention while experts are waited for is
// worth streaming the experts' weights more than once.
#pragma once

#include <cstdint>

namespace troupe {

/// Chooses the number from measurements.
///
/// With m micro-batches, each with 1/m of the rows, attention of one overlaps with the experts of another.
/// But an expert step costs about (balance + rows of the expert) row times, since its weights are streamed
/// once for any number of rows. Below `balance_rows` it is bound by bandwidth, and m small steps take up to m
/// times as long as one large step. So the estimated time of one iteration of all rows is
///
///     T(m) = max(A, E(m), A / m + N + E(m) / m)        E(m) = E · (m · balance + r) / (balance + r)
///
/// where A is attention, E expert computation, N network and queues (which do not shrink with the batch), and
/// r the rows per active expert with m = 1. The m with the smallest T is chosen.
class micro_batch_policy {
 public:
  struct config {
    std::uint32_t max_micro_batches = 1;
    std::uint32_t min_micro_batches = 1; ///< equal to the maximum: a fixed number
    /// Rows of an expert at which streaming its weights takes as long as computing them: about 16 for BF16
    /// weights and AVX2 (33 GB/s of weights, 140 GFLOP/s).
    double balance_rows = 16;
    /// More micro-batches must save at least this share of the time, so that noise does not change the
    /// number.
    double worthwhile = 0.05;
  };

  /// Measured on one micro-batch through all layers.
  struct measurement {
    std::uint32_t in_flight = 1; ///< number of micro-batches, this one included
    double attention_ns = 0;     ///< computation of the attention side
    double waiting_ns = 0;       ///< from each dispatch to its last answer
    double expert_ns = 0;        ///< part of it: computation on the slowest host of each layer
    double rows_per_expert = 0;  ///< mean over the active experts
  };

  explicit micro_batch_policy(config limits) : config_(limits), wanted_(limits.min_micro_batches) {}

  void observe(const measurement& seen);

  /// How many should be in flight; `min_micro_batches` before the first measurement.
  std::uint32_t wanted() const { return wanted_; }

  /// T(m) from the averages so far. @param m  at least 1
  double expected_ns(std::uint32_t m) const;

 private:
  config config_;
  // Averages, as if with one micro-batch in flight.
  double attention_ns_ = 0;
  double expert_ns_ = 0;
  double network_ns_ = 0;
  double rows_ = 0;
  bool measured_ = false;
  std::uint32_t wanted_;
};

} // namespace troupe
