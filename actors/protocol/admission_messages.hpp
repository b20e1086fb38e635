// How a request asks the scheduler for a place at an attention worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/protocol/prefix_hash.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// Gateway session to scheduler: may this request run, and where?
struct admission_request {
  request_id id;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_new_tokens = 0;
  /// New tokens that suffice where the context ends early; 0: all of `max_new_tokens`.
  std::uint32_t min_new_tokens = 0;
  std::uint32_t num_choices = 1; ///< run in parallel as far as a worker has room, the rest afterwards
  std::int32_t priority = 0;
  std::uint64_t deadline_ms = 0; ///< longest wait for a place
  std::uint32_t attempt = 0; ///< above 0: was admitted before and lost its worker; precedes all new requests
  /// Another prompt of this HTTP request has produced tokens: never refuse, queue until the deadline.
  bool follows = false;
  std::vector<worker_id> avoid; ///< workers that just failed this request
  worker_id gateway{};          ///< filled in by the gateway actor
  /// Name of the client's API key, which decides its turn in the queue; empty without a key. At most
  /// `max_tenant_bytes`.
  std::string tenant;
  std::uint32_t weight = 1;  ///< turns of this tenant for each turn of a tenant of weight 1; see `weight_of`
  request_context context{}; ///< for logs
  /// Of the prompt, the shortest first: a worker that has their keys does not compute them again.
  std::vector<prefix_landmark> landmarks{};
  bool operator==(const admission_request&) const = default;
};

/// True when a refusal (queue full, scheduler away) would end an answer that has begun.
inline bool is_promised(const admission_request& x) {
  return x.attempt > 0 || x.follows;
}

inline constexpr std::size_t max_tenant_bytes = 64;
inline constexpr std::uint32_t max_tenant_weight = 1000;

/// The effective weight, 1 to `max_tenant_weight`.
inline std::uint32_t weight_of(const admission_request& x) {
  return std::clamp(x.weight, std::uint32_t{1}, max_tenant_weight);
}

/// Memory of a waiting request: its prompt in a gateway, and a few actors and messages.
inline std::uint64_t queue_bytes_of(const admission_request& x) {
  return std::uint64_t{x.prompt_tokens} * sizeof(std::int32_t) + 1024;
}

/// The scheduler's answer to an admitted request. The session reports `done` to free the place.
struct assignment {
  request_id id;
  worker_address worker;         ///< an attention worker
  std::uint32_t num_choices = 1; ///< choices that may run there at the same time
  std::uint64_t kv_tokens = 0;   ///< KV tokens reserved for all of them together
  /// Numerics classes of the attention and the expert workers, concatenated: an answer that has begun
  /// continues in the same classes only. Empty: any.
  std::string numerics{};
  bool operator==(const assignment&) const = default;
};

TROUPE_DECLARE_INSPECT(prefix_landmark)
TROUPE_DECLARE_INSPECT(admission_request)
TROUPE_DECLARE_INSPECT(assignment)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_admission, troupe::first_type_id::of_admission)
  CAF_ADD_TYPE_ID(troupe_admission, (troupe::admission_request))
  CAF_ADD_TYPE_ID(troupe_admission, (troupe::assignment))
CAF_END_TYPE_ID_BLOCK(troupe_admission)
