// How attention workers tell which experts they use, and what the cluster remembers of it.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "actors/history/activation_window.hpp"
#include "actors/ids.hpp"
#include "actors/transport/wire/extensible.hpp"

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

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, activation_report& x) {
  return extensible(f, "activation_report", x.worker, x.fingerprint, x.layer_experts, x.first, x.windows);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, activation_receipt& x) {
  return extensible(f, "activation_receipt", x.taken, x.saved);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, history_window& x) {
  return extensible(f, "history_window", x.worker, x.sequence, x.at_ms, x.encoded);
}

/// `decayed` travels as the bits of its numbers; exact_float.hpp says why.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, history_snapshot& x) {
  std::vector<std::vector<uint64_t>> bits;
  for (const auto& layer : x.decayed) {
    auto& of_layer = bits.emplace_back();
    for (const auto rows : layer)
      of_layer.push_back(std::bit_cast<uint64_t>(rows));
  }
  auto give = [&] {
    return extensible(f, "history_snapshot", x.fingerprint, x.layer_experts, x.half_life_ms, x.age_ms,
                      x.tokens, x.rows, bits, x.windows);
  };
  if constexpr (std::is_void_v<typename Inspector::result_type>) {
    give(); // for people's eyes
  } else {
    auto result = give();
    if constexpr (Inspector::writes_state) {
      x.decayed.clear();
      for (const auto& layer : bits) {
        auto& of_layer = x.decayed.emplace_back();
        for (const auto rows : layer)
          of_layer.push_back(std::bit_cast<double>(rows));
      }
    }
    return result;
  }
}

} // namespace troupe
