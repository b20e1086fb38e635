// Wire layout of the structures in role_messages.hpp: their fields, in order.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>

#include <caf/meta/type_name.hpp>

#include "actors/protocol/role_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, held_place& x) {
  return f(caf::meta::type_name("held_place"), x.request, x.worker, x.num_seqs, x.kv_tokens);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, gateway_terms& x) {
  return extensible(f, "gateway_terms", x.places);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, attention_terms& x) {
  return extensible(f, "attention_terms", x.max_num_seqs, x.kv_capacity_tokens, x.max_model_len, x.running);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_terms& x) {
  return extensible(f, "expert_terms", x.memory_bytes, x.expert_bytes, x.hosted, x.weights, x.topology);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, complaint& x) {
  return f(caf::meta::type_name("complaint"), x.about, x.silent_ms);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, gateway_load& x) {
  return extensible(f, "gateway_load", x.complaints);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, attention_load& x) {
  return extensible(f, "attention_load", x.kv_tokens_used, x.at_experts, x.complaints, x.prefixes,
                    x.prefix_queries, x.prefix_hits);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_work& x) {
  return extensible(f, "expert_work", x.busy_ns, x.runs, x.rows);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_load& x) {
  return extensible(f, "expert_load", x.work);
}

/// What belongs to one role: its place in the variant, then the structure, which is extensible. One of a role
/// that this version does not know is skipped by its length.
template <class Inspector, class... Parts>
typename Inspector::result_type lay_out(Inspector& f, std::variant<std::monostate, Parts...>& x) {
  if constexpr (Inspector::writes_state) {
    std::uint8_t place = 0;
    if (auto err = f(place))
      return err;
    x = std::monostate{};
    if (place > sizeof...(Parts)) {
      wire::extensible_reader unknown{f};
      auto err = unknown.begin();
      return err ? err : unknown.finish();
    }
    caf::error result;
    std::uint8_t next = 0;
    const auto read = [&](auto& part) { result = f(part); };
    ((++next == place ? read(x.template emplace<Parts>()) : void()), ...);
    return result;
  } else {
    auto place = static_cast<std::uint8_t>(x.index());
    return std::visit(
        [&](auto& part) {
          if constexpr (std::is_same_v<decltype(part), std::monostate&>)
            return f(place);
          else
            return f(place, part);
        },
        x);
  }
}

} // namespace troupe
