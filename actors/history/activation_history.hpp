// What the cluster remembers of which experts its tokens chose: a decayed sum, and the last windows as they
// came. Pure: time comes with every call.
//
// The history's age grows only while the cluster works, so that a quiet night does not make the first seconds
// of the next day outweigh everything before. A window of d milliseconds that is counted at time t makes it
// older by min(d, t − t'), where t' is when the window before it was counted, whoever sent that: workers that
// report side by side do not make it age faster. Of several windows in one report each counts as if it had
// come when it ended. Rows that were counted at age a weigh 2^−((age − a) / half-life) in the decayed sum.
//
// Both forms are what placement from history needs: loads of the recent past, and windows to see which
// experts are busy at the same time (Huang et al., "Towards MoE Deployment", § VII).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/defaults.hpp"
#include "actors/history/history_messages.hpp"

namespace troupe {

/// What is wrong with a history that was read from somewhere; empty when it can be used.
std::string flaw_of(const history_snapshot& history);

/// What a restarted scheduler must know: the history, and what of it each worker has been told is counted.
struct stored_history {
  history_snapshot history;
  std::map<worker_id, uint64_t> counted; ///< the last sequence number of each worker
  bool operator==(const stored_history&) const = default;
};

class activation_history {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct limits {
    std::chrono::milliseconds half_life = defaults::history_half_life;
    size_t max_windows = defaults::max_history_windows;
    size_t max_bytes = defaults::max_history_bytes; ///< of all windows together, encoded
    size_t max_workers = defaults::max_history_workers;
  };

  activation_history() = default;
  explicit activation_history(limits bounds);

  /// Goes on with what was stored, by whatever half-life it was decayed until then.
  /// @errors throws `std::runtime_error` that says what is wrong with it
  activation_history(limits bounds, stored_history stored);

  /// Nothing has been counted and nothing stored was given.
  bool is_empty() const { return state_.fingerprint.empty(); }

  /// Is this its model? Yes while it is empty.
  bool is_of(const std::string& fingerprint, const std::vector<uint32_t>& layer_experts) const;

  const std::string& fingerprint() const { return state_.fingerprint; }

  uint64_t tokens() const { return state_.tokens; }

  /// Counts what is new in a report: windows above the last sequence number that was counted of this worker.
  /// The first report says what the model is.
  /// @returns whether there was anything new
  /// @errors throws `std::runtime_error` for another model and for windows that cannot be read; then nothing
  ///         of the report is counted
  bool count(const activation_report& report, time_point now);

  /// The last sequence number that was counted of a worker; 0: none. Beyond `max_workers` those that have
  /// reported longest ago are forgotten.
  uint64_t counted(worker_id worker) const;

  /// @param max_windows  the most recent ones; others are left out
  history_snapshot snapshot(size_t max_windows) const;

  stored_history stored() const;

 private:
  struct reporter {
    uint64_t last = 0;   ///< sequence number
    uint64_t report = 0; ///< when it last reported, counted in reports
  };

  void begin(const activation_report& report);
  void age_by(uint64_t milliseconds);
  void keep(history_window window);
  void remember(worker_id id, uint64_t last);

  limits limits_;
  history_snapshot state_; ///< without its windows
  std::deque<history_window> windows_;
  size_t window_bytes_ = 0;
  std::map<worker_id, reporter> workers_;
  uint64_t num_reports_ = 0;
  std::optional<time_point> last_; ///< when a window was last counted
};

} // namespace troupe
