// Wire layout of the structures in weights_messages.hpp: their fields, in order.
#pragma once

#include "actors/protocol/weights_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, weights_read& x) {
  return extensible(f, "weights_read", x.reader, x.fetch, x.fingerprint, x.numerics_class, x.expert, x.offset,
                    x.max_bytes);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, weights_chunk& x) {
  return extensible(f, "weights_chunk", x.layout, x.num_bytes, x.checksum, x.offset, x.bytes);
}

} // namespace troupe
