// What GET /cluster/history answers, as far as traces need it. services/gateway/README.md says what is in it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::load {

/// What one attention worker has counted in some seconds.
struct history_window {
  std::string worker;    ///< its incarnation
  uint64_t sequence = 0; ///< of its windows, from 1
  uint64_t at_ms = 0;    ///< the history's age when it was counted
  uint64_t duration_ms = 0;
  uint64_t tokens = 0;
  uint64_t micro_batches = 0; ///< that the tokens came in; 0: not said
  /// [layers] (expert, rows) of the experts that had any, by expert
  std::vector<std::vector<std::pair<uint32_t, uint64_t>>> rows;
};

struct history_page {
  std::string fingerprint;             ///< of the model; empty before anything was counted, as the lists are
  std::vector<uint32_t> layer_experts; ///< [layers] experts of each, 0 for a dense one
  uint64_t tokens = 0;                 ///< ever counted
  std::vector<history_window> windows; ///< the most recent ones, oldest first
};

/// @throws std::runtime_error that says what is wrong, with its place: no JSON, another format, a window of
///         another shape, a model of more than 2^20 experts
history_page parse_history_page(const std::string& text);

} // namespace troupe::load
