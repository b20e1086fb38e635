// Recordings of expert usage: the windows of a cluster's history, each once, as JSON lines.
//
// Format, version 1, read by load/trace_figures.py and tests/bench/planner_balance.cpp:
//
//    {"format": "troupe-trace 1", "trace": NAME, "window": "what one window is, in words", "fingerprint": …,
//     "layers": [decoder layers that have experts], and a description of the load}
//    {"rows": [[rows of each expert] for each of these layers], "domain": NAME, "tokens": N, "at_s": S,
//     "duration_s": S, "worker": ID, "sequence": N}
//    …
//
// One line a window, with "steps" if the history counts micro-batches. "at_s" is the time of reading, in
// seconds since the recording began; the window covers the "duration_s" before it was counted. All members of
// a window but "rows" are optional, and unknown ones are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "services/pages/history_page.hpp"

namespace troupe::load {

/// Picks the windows of a recording that are neither older than it nor seen already.
class trace_recorder {
 public:
  /// @param before  the history when the recording begins
  explicit trace_recorder(const pages::history_page& before);

  /// Whether the history counted more windows since the last page than this page shows.
  bool is_short(const pages::history_page& page) const;

  /// @returns the new windows, oldest first
  /// @throws std::runtime_error  the history is another model's, or counts less than before
  std::vector<pages::window_part> take(pages::history_page page);

  /// Tokens that the history has counted since the recording began.
  std::uint64_t counted() const { return counted_; }

  /// Of these, tokens in windows that left the history before they were read.
  std::uint64_t missed() const { return counted_ > taken_ ? counted_ - taken_ : 0; }

 private:
  bool is_new(const pages::window_part& window) const;

  std::string fingerprint_; ///< empty until the history has a model
  std::uint64_t tokens_before_ = 0;
  std::uint64_t counted_ = 0;
  std::uint64_t taken_ = 0;
  std::map<std::string, std::uint64_t> last_; ///< sequence number of each worker's last window
};

/// @param about  description of the load; its members become the header's
std::string trace_header(const std::string& name, const std::string& window, const pages::history_page& model,
                         const nlohmann::ordered_json& about);

/// @param layer_experts  experts of the window's model
/// @param at_seconds     since the recording began
std::string trace_line(const pages::window_part& window, const std::vector<std::uint32_t>& layer_experts,
                       const std::string& domain, double at_seconds);

} // namespace troupe::load
