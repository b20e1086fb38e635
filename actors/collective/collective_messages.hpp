// What ranks of a group send to one another.
#pragma once

#include <cstdint>
#include <string>

#include <caf/type_id.hpp>

#include "actors/transport/wire/extensible.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// One rank's part of an exchange, in which every rank sends one to every other.
struct collective_part {
  std::uint32_t rank = 0;     ///< the sender's
  std::uint64_t exchange = 0; ///< counts from 0 in every group
  std::string operation;      ///< with its sizes: the same at all ranks
  payload bytes;
  bool operator==(const collective_part&) const = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, collective_part& x) {
  return extensible(f, "collective_part", x.rank, x.exchange, x.operation, x.bytes);
}

} // namespace troupe

// Behind all other blocks, with room for them to grow.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_collective, caf::first_custom_type_id + 240)

  CAF_ADD_TYPE_ID(troupe_collective, (troupe::collective_part))

CAF_END_TYPE_ID_BLOCK(troupe_collective)
