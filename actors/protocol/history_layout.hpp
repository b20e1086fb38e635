// Wire layout of the structures in history_messages.hpp: their fields, in order.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "actors/protocol/exact_float.hpp"
#include "actors/protocol/history_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, activation_report& x) {
  return extensible(f, "activation_report", x.worker, x.fingerprint, x.layer_experts, x.first, x.windows);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, activation_receipt& x) {
  return extensible(f, "activation_receipt", x.taken, x.saved);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, history_window& x) {
  return extensible(f, "history_window", x.worker, x.sequence, x.at_ms, x.encoded);
}

/// `decayed` travels as the bits of its numbers; exact_float.hpp says why.
template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, history_snapshot& x) {
  std::vector<std::vector<std::uint64_t>> bits;
  for (const auto& layer : x.decayed) {
    auto& of_layer = bits.emplace_back();
    for (const auto rows : layer)
      of_layer.push_back(std::bit_cast<std::uint64_t>(rows));
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
