// GET /cluster/history, and the files of --history: which experts tokens have chosen. A gateway writes it;
// the scheduler, `troupe top` and `troupe-load trace` read it. docs/api.md says what its members mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/pages/page_part.hpp"

namespace troupe::pages {

/// What one attention worker has counted in some seconds.
struct window_part {
  std::string worker;         ///< its incarnation, in hexadecimal
  std::uint64_t sequence = 0; ///< of its windows, from 1
  std::uint64_t at_ms = 0;    ///< the history's age when it was counted
  std::uint64_t duration_ms = 0;
  std::uint64_t tokens = 0;
  std::optional<std::uint64_t> micro_batches;   ///< that held the tokens; none or 0: unknown
  std::vector<std::vector<std::uint64_t>> rows; ///< [layers] expert, rows, expert, rows, …

  TROUPE_PAGE_PART(worker, sequence, at_ms, duration_ms, tokens, micro_batches, rows)
};

struct history_page {
  std::string format = "troupe-history 1";
  std::string fingerprint; ///< of the model; empty before anything was counted, as the lists are
  std::vector<std::uint32_t> layer_experts; ///< [layers] experts of each, 0 for a dense one
  std::uint64_t half_life_ms = 0;
  std::uint64_t age_ms = 0;
  std::uint64_t tokens = 0;                 ///< ever counted
  std::uint64_t rows = 0;                   ///< likewise
  std::vector<std::vector<double>> decayed; ///< [layers][experts of the layer]
  std::vector<window_part> windows;         ///< the most recent ones, oldest first

  TROUPE_PAGE_PART(format, fingerprint, layer_experts, half_life_ms, age_ms, tokens, rows, decayed, windows)
};

std::string encode_history(const history_page& page);

/// Only what the page may say: lists have the model's shape, and numbers are in their ranges.
/// @throws std::runtime_error that names the flaw and its place
history_page decode_history(const std::string& text);

} // namespace troupe::pages
