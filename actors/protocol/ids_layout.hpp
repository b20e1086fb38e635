// Wire layout of the structures in ids.hpp: their fields, in order.
#pragma once

#include <caf/meta/type_name.hpp>

#include "actors/protocol/ids.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, request_id& x) {
  return f(caf::meta::type_name("request_id"), x.value);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, worker_id& x) {
  return f(caf::meta::type_name("worker_id"), x.value);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, expert_id& x) {
  return f(caf::meta::type_name("expert_id"), x.layer, x.index);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, sequence_id& x) {
  return f(caf::meta::type_name("sequence_id"), x.request, x.choice);
}

} // namespace troupe
