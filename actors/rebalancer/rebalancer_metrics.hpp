// The rebalancer's reports on its work; the service turns them into metrics and log lines.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Called on the actor's thread: an implementation counts or enqueues and returns. It neither blocks nor
/// throws.
struct rebalancer_metrics {
  virtual ~rebalancer_metrics() = default;
  /// The present state by the recent windows: the busiest hosts' time of a step over that of an even load,
  /// and the share of a layer's load on its busiest host.
  virtual void on_look(double imbalance, double max_share) = 0;
  /// How many expert workers there should be; at each look once it is known.
  virtual void on_wanted_workers(std::uint32_t count) = 0;
  /// A plan was made.
  /// @param predicted_gain  share of a step's time
  virtual void on_plan(bool is_carried_out, double predicted_gain) = 0;
  /// Experts of the running change that are not in their place yet; 0: no change is running.
  virtual void on_moves_left(std::uint64_t count) = 0;
  /// A move of an expert has ended.
  /// @param bytes  loaded by hosts for it
  virtual void on_move(bool is_done, std::uint64_t bytes) = 0;
  /// An event for operators: a stable name ("placement-change"), then a sentence.
  virtual void on_event(const char* name, const std::string& text) = 0;
};

} // namespace troupe
