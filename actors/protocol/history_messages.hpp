// How attention workers report which experts they use, and what the cluster remembers of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/activation_window.hpp"
#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

/// A worker's windows that may not have been counted yet, oldest first. Consecutive sequence numbers make
/// each window count once, however often it arrives.
struct activation_report {
  worker_id worker; ///< the incarnation: a new one starts again at 1
  std::string fingerprint;
  std::vector<std::uint32_t> layer_experts; ///< [layers] experts of each, 0 for a dense one
  std::uint64_t first = 0;                  ///< sequence number of the first window
  std::vector<std::string> windows; ///< as `encode` writes them; at most defaults::max_unsaved_windows
  bool operator==(const activation_report&) const = default;
};

/// Which of a worker's windows were counted, by sequence number.
struct activation_receipt {
  std::uint64_t taken = 0; ///< counted up to this number
  std::uint64_t saved = 0; ///< a restarted scheduler knows them up to this number
  bool operator==(const activation_receipt&) const = default;
};

/// One worker's counts over some seconds.
struct history_window {
  worker_id worker;
  std::uint64_t sequence = 0;
  std::uint64_t at_ms = 0; ///< the history's age when the window was counted
  std::string encoded;     ///< an activation_window, as `encode` writes it
  bool operator==(const history_window&) const = default;
};

/// The activation history of a cluster, or of an earlier one.
struct history_snapshot {
  std::string fingerprint;                  ///< of the model; empty while nothing has been counted
  std::vector<std::uint32_t> layer_experts; ///< [layers]
  std::uint64_t half_life_ms = 0;           ///< of `decayed`, by the history's age
  std::uint64_t age_ms = 0; ///< time during which the cluster worked; see activation_history.hpp
  std::uint64_t tokens = 0; ///< counted in all
  std::uint64_t rows = 0;   ///< (token, layer, expert) counted in all
  /// [layers][experts of the layer] decayed rows: a row that is one half-life old counts half.
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
