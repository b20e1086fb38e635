// Wire layout of the structures in admission_messages.hpp: their fields, in order.
#pragma once

#include <caf/meta/type_name.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, prefix_landmark& x) {
  return f(caf::meta::type_name("prefix_landmark"), x.hash, x.num_tokens);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, admission_request& x) {
  return extensible(f, "admission_request", x.id, x.prompt_tokens, x.max_new_tokens, x.min_new_tokens,
                    x.num_choices, x.priority, x.deadline_ms, x.attempt, x.follows, x.avoid, x.gateway,
                    x.tenant, x.weight, x.context, x.landmarks);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, assignment& x) {
  return extensible(f, "assignment", x.id, x.worker, x.num_choices, x.kv_tokens, x.numerics);
}

} // namespace troupe
