// Identities that travel in messages: one-member structs, so that none is passed where another belongs.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"

namespace troupe {

/// A request, unique in the cluster: the gateway's random 32 bits, then its counter.
struct request_id {
  uint64_t value = 0;
  auto operator<=>(const request_id&) const = default;
};

/// One incarnation of a worker process, drawn at random when it starts; a restarted worker is another one.
struct worker_id {
  uint64_t value = 0; ///< 0 names nobody
  auto operator<=>(const worker_id&) const = default;
};

/// One expert of one layer; `layer` counts all decoder layers from 0.
struct expert_id {
  uint32_t layer = 0;
  uint32_t index = 0;
  auto operator<=>(const expert_id&) const = default;
};

/// One sequence of a request: OpenAI's `n` choices are `n` sequences.
struct sequence_id {
  request_id request;
  uint32_t choice = 0;
  auto operator<=>(const sequence_id&) const = default;
};

TROUPE_DECLARE_INSPECT(request_id)
TROUPE_DECLARE_INSPECT(worker_id)
TROUPE_DECLARE_INSPECT(expert_id)
TROUPE_DECLARE_INSPECT(sequence_id)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_ids, troupe::first_type_id::of_ids)
  CAF_ADD_TYPE_ID(troupe_ids, (troupe::request_id))
  CAF_ADD_TYPE_ID(troupe_ids, (troupe::worker_id))
  CAF_ADD_TYPE_ID(troupe_ids, (troupe::expert_id))
  CAF_ADD_TYPE_ID(troupe_ids, (troupe::sequence_id))
CAF_END_TYPE_ID_BLOCK(troupe_ids)

template <>
struct std::hash<troupe::request_id> {
  size_t operator()(troupe::request_id x) const noexcept { return std::hash<uint64_t>{}(x.value); }
};

template <>
struct std::hash<troupe::worker_id> {
  size_t operator()(troupe::worker_id x) const noexcept { return std::hash<uint64_t>{}(x.value); }
};
