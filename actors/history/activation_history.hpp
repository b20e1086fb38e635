// The cluster's memory of the experts that its tokens chose: a decayed sum, and the latest windows unchanged.
// Pure: time is a parameter.
//
// The history's age grows only while the cluster works; otherwise the first seconds after a quiet night would
// outweigh everything before. A window of d milliseconds, counted at time t, adds min(d, t − t') to the age,
// where t' is the time of the previously counted window of any worker: workers that report in parallel do not
// make it age faster. Each of several windows in one report counts as of its own end. Rows counted at age a
// weigh 2^−((age − a) / half-life) in the decayed sum.
//
// Placement from history needs both forms: recent loads, and windows that show which experts are busy at the
// same time (Huang et al., "Towards MoE Deployment", § VII).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/history_messages.hpp"

namespace troupe {

/// What is wrong with a history that was read; empty: it is usable.
std::string flaw_of(const history_snapshot& history);

/// What a restarted scheduler must know: the history, and how far it has confirmed each worker's windows.
struct stored_history {
  history_snapshot history;
  std::map<worker_id, std::uint64_t> counted; ///< last sequence number of each worker
  bool operator==(const stored_history&) const = default;
};

class activation_history {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct limits {
    std::chrono::milliseconds half_life = defaults::history_half_life;
    std::size_t max_windows = defaults::max_history_windows;
    std::size_t max_bytes = defaults::max_history_bytes; ///< of all windows together, encoded
    std::size_t max_workers = defaults::max_history_workers;
  };

  activation_history() = default;
  explicit activation_history(limits bounds);

  /// Continues a stored history, whatever its half-life was.
  /// @throws std::runtime_error naming what is wrong with it
  activation_history(limits bounds, stored_history stored);

  /// Nothing was counted, and nothing stored was given.
  bool is_empty() const { return state_.fingerprint.empty(); }

  /// Whether the history is of this model; true while it is empty.
  bool is_of(const std::string& fingerprint, const std::vector<std::uint32_t>& layer_experts) const;

  const std::string& fingerprint() const { return state_.fingerprint; }

  std::uint64_t tokens() const { return state_.tokens; }

  /// Counts the new windows of a report: those above the worker's last counted sequence number. The first
  /// report determines the model.
  /// @returns whether a window was new
  /// @throws std::runtime_error  another model, or unreadable windows; then nothing of the report is counted
  bool count(const activation_report& report, time_point now);

  /// Last counted sequence number of a worker; 0: none. Beyond `max_workers`, the workers with the oldest
  /// reports are forgotten.
  std::uint64_t counted(worker_id worker) const;

  /// @param max_windows  how many of the most recent ones are included
  history_snapshot snapshot(std::size_t max_windows) const;

  stored_history stored() const;

 private:
  struct reporter {
    std::uint64_t last = 0;   ///< sequence number
    std::uint64_t report = 0; ///< number of its last report, over all workers
  };

  void begin(const activation_report& report);
  void age_by(std::uint64_t milliseconds);
  void keep(history_window window);
  void remember(worker_id id, std::uint64_t last);

  limits limits_;
  history_snapshot state_; ///< without its windows
  std::deque<history_window> windows_;
  std::size_t window_bytes_ = 0;
  std::map<worker_id, reporter> workers_;
  std::uint64_t num_reports_ = 0;
  std::optional<time_point> last_; ///< time of the last counted window
};

} // namespace troupe
