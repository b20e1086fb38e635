// Wire layout of the structures in view_messages.hpp: their fields, in order.
#pragma once

#include <caf/meta/type_name.hpp>

#include "actors/protocol/view_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, changed_layer& x) {
  return f(caf::meta::type_name("changed_layer"), x.index, x.layer);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, view_change& x) {
  return extensible(f, "view_change", x.term, x.from_epoch, x.epoch, x.num_layers, x.layers, x.joined, x.left,
                    x.ready, x.max_model_len);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, worker_welcome& x) {
  return extensible(f, "worker_welcome", x.term, x.fingerprint, x.view, x.tells_ready);
}

} // namespace troupe
