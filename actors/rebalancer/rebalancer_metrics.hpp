// What the rebalancer tells about itself as it works; the service turns it into metrics and log lines.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Called on the actor's thread: an implementation counts or hands over and returns, it neither blocks nor
/// throws.
struct rebalancer_metrics {
  virtual ~rebalancer_metrics() = default;
  /// What there is, by the recent windows: the busiest hosts' time of a step over that of an even load, and
  /// the share of a layer's load on its busiest host.
  virtual void on_look(double imbalance, double max_share) = 0;
  /// Share of a step's time that one more worker would save, and share of a worker that could go.
  virtual void on_growth(double gain_of_one_more, double waste_of_one) = 0;
  /// A plan is made. @param predicted_gain  share of a step's time
  virtual void on_plan(bool is_carried_out, double predicted_gain) = 0;
  /// Experts of the change that is under way which are not where they should be; 0: none is under way.
  virtual void on_moves_left(uint64_t count) = 0;
  /// An expert's move is over. @param bytes  that hosts have loaded for it
  virtual void on_move(bool is_done, uint64_t bytes) = 0;
  /// Something an operator should read: a stable name ("placement-change"), then a sentence.
  virtual void on_event(const char* name, const std::string& text) = 0;
};

} // namespace troupe
