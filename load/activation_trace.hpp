// A recording of which experts were used: windows of a cluster's history, each once, as JSON lines.
//
// The file, version 1, which load/trace_figures.py draws and tests/bench/planner_balance.cpp replays:
//
//   {"format": "troupe-trace 1", "trace": NAME, "window": "what one window is, in words", "fingerprint": …,
//    "layers": [decoder layers that have experts], and what the load was}
//   {"rows": [[rows of each expert] for each of these layers], "domain": NAME, "tokens": N, "at_s": S,
//    "duration_s": S, "worker": ID, "sequence": N}
//   …
//
// One line a window; "steps" besides, where the history says how many micro-batches its tokens came in.
// "at_s" is when it was read, in seconds since the recording began; the window covers the "duration_s" before
// it was counted. Members of a window other than "rows" may be missing, and those that nobody knows are
// ignored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "load/history_page.hpp"

namespace troupe::load {

/// Tells the windows of a recording from those that were there before, and each from those seen already.
class trace_recorder {
 public:
  /// @param before  the history when the recording begins
  explicit trace_recorder(const history_page& before);

  /// Whether the history has counted more since the last page than the windows that this one shows: some
  /// are left out of it.
  bool is_short(const history_page& page) const;

  /// @returns the windows that are new, oldest first
  /// @throws std::runtime_error when the history is another model's, or counts less than before
  std::vector<history_window> take(history_page page);

  /// Tokens that the history has counted since the recording began.
  uint64_t counted() const { return counted_; }

  /// Of these, tokens of windows that were not seen: they had left the history when it was asked.
  uint64_t missed() const { return counted_ > taken_ ? counted_ - taken_ : 0; }

 private:
  bool is_new(const history_window& window) const;

  std::string fingerprint_; ///< empty until the history has one
  uint64_t tokens_before_ = 0;
  uint64_t counted_ = 0;
  uint64_t taken_ = 0;
  std::map<std::string, uint64_t> last_; ///< sequence number of each worker's last window
};

/// @param about  what the load was; its members become the header's
std::string trace_header(const std::string& name, const std::string& window, const history_page& model,
                         const nlohmann::ordered_json& about);

/// @param layer_experts  of the model that the window is of
/// @param at_seconds     since the recording began
std::string trace_line(const history_window& window, const std::vector<uint32_t>& layer_experts,
                       const std::string& domain, double at_seconds);

} // namespace troupe::load
