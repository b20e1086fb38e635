// How attention workers tell which experts they use, and what the cluster remembers of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/history/activation_window.hpp"
#include "actors/ids.hpp"

namespace troupe {

/// A worker's windows that may not have been counted yet, oldest first. Their sequence numbers follow one
/// another, so that each is counted once however often it comes.
struct activation_report {
  worker_id worker; ///< the incarnation: another one begins again at 1
  std::string fingerprint;
  std::vector<uint32_t> layer_experts; ///< [layers] experts of each, 0 for a dense one
  uint64_t first = 0;                  ///< sequence number of the first window
  std::vector<std::string> windows;    ///< as `encode` writes them; at most defaults::max_unsaved_windows
  bool operator==(const activation_report&) const = default;
};

/// What has become of a worker's windows, by their sequence numbers.
struct activation_receipt {
  uint64_t taken = 0; ///< counted up to this one
  uint64_t saved = 0; ///< of these, a restarted scheduler knows those up to this one
  bool operator==(const activation_receipt&) const = default;
};

/// One worker's counts over some seconds.
struct history_window {
  worker_id worker;
  uint64_t sequence = 0;
  uint64_t at_ms = 0;  ///< the history's age when it was counted
  std::string encoded; ///< an activation_window, as `encode` writes it
  bool operator==(const history_window&) const = default;
};

/// The activation history of a cluster, or of an earlier one.
struct history_snapshot {
  std::string fingerprint;             ///< of the model; empty while nothing has been counted
  std::vector<uint32_t> layer_experts; ///< [layers]
  uint64_t half_life_ms = 0;           ///< of `decayed`, by the history's age
  uint64_t age_ms = 0;                 ///< time in which the cluster worked; see activation_history.hpp
  uint64_t tokens = 0;                 ///< ever counted
  uint64_t rows = 0;                   ///< (token, layer, expert) ever counted
  /// [layers][experts of the layer] rows, those of an age of a half-life counted half.
  std::vector<std::vector<double>> decayed;
  std::vector<history_window> windows; ///< the most recent ones, oldest first
  bool operator==(const history_snapshot&) const = default;
};

TROUPE_DECLARE_INSPECT(activation_report)
TROUPE_DECLARE_INSPECT(activation_receipt)
TROUPE_DECLARE_INSPECT(history_window)
TROUPE_DECLARE_INSPECT(history_snapshot)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_history, troupe::first_type_id::of_history)
  CAF_ADD_TYPE_ID(troupe_history, (troupe::activation_report))
  CAF_ADD_TYPE_ID(troupe_history, (troupe::activation_receipt))
  CAF_ADD_TYPE_ID(troupe_history, (troupe::history_snapshot))
CAF_END_TYPE_ID_BLOCK(troupe_history)
