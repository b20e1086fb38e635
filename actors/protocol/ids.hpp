// Identities in messages: one-member structs, so that the compiler tells them apart.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"

namespace troupe {

/// A request, unique in the cluster: the gateway's random 32 bits, then its counter.
struct request_id {
  std::uint64_t value = 0;
  auto operator<=>(const request_id&) const = default;
};

/// One incarnation of a worker process, drawn at random at its start.
struct worker_id {
  std::uint64_t value = 0; ///< 0: none
  auto operator<=>(const worker_id&) const = default;
};

/// One expert of one layer; `layer` counts all decoder layers from 0.
struct expert_id {
  std::uint32_t layer = 0;
  std::uint32_t index = 0;
  auto operator<=>(const expert_id&) const = default;
};

/// One sequence of a request: OpenAI's `n` choices are `n` sequences.
struct sequence_id {
  request_id request;
  std::uint32_t choice = 0;
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
  std::size_t operator()(troupe::request_id x) const noexcept { return std::hash<std::uint64_t>{}(x.value); }
};

template <>
struct std::hash<troupe::worker_id> {
  std::size_t operator()(troupe::worker_id x) const noexcept { return std::hash<std::uint64_t>{}(x.value); }
};
