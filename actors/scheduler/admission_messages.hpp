// How a request asks for a place among the attention workers, and gets one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"
#include "actors/request_context.hpp"

namespace troupe {

/// Gateway session to scheduler: may this request run, and where?
struct admission_request {
  request_id id;
  uint32_t prompt_tokens = 0;
  uint32_t max_new_tokens = 0;
  /// Fewer than `max_new_tokens` will do where the context ends, but no fewer than these; 0: none fewer.
  uint32_t min_new_tokens = 0;
  uint32_t num_choices = 1; ///< run side by side as far as a worker holds them, the rest after them
  int32_t priority = 0;
  uint64_t deadline_ms = 0; ///< how long it may wait for a place
  uint32_t attempt = 0;     ///< above 0: was admitted before and lost its worker; goes before all new ones
  /// Another prompt of this HTTP request has produced tokens: never refuse, queue until the deadline.
  bool follows = false;
  std::vector<worker_id> avoid; ///< workers that just failed it
  worker_id gateway{};          ///< whose request it is; the gateway actor fills it in
  /// Whose turn in the queue it takes: the name of the client's API key; empty without one. Of at most
  /// `max_tenant_bytes`.
  std::string tenant;
  uint32_t weight = 1;       ///< turns of this tenant for each one of a tenant of weight 1; see `weight_of`
  request_context context{}; ///< for logs
  bool operator==(const admission_request&) const = default;
};

/// Not to be refused because the queue is full or the scheduler away: that would end an answer that has
/// begun.
inline bool is_promised(const admission_request& x) {
  return x.attempt > 0 || x.follows;
}

inline constexpr size_t max_tenant_bytes = 64;
inline constexpr uint32_t max_tenant_weight = 1000;

/// The weight that counts, 1 to `max_tenant_weight`.
inline uint32_t weight_of(const admission_request& x) {
  return std::clamp(x.weight, uint32_t{1}, max_tenant_weight);
}

/// What a request costs the cluster while it waits: its prompt in a gateway, and a few actors and messages.
inline uint64_t queue_bytes_of(const admission_request& x) {
  return uint64_t{x.prompt_tokens} * sizeof(int32_t) + 1024;
}

/// The scheduler's yes. The session reports `done` to give the place back.
struct assignment {
  request_id id;
  worker_address worker;    ///< an attention worker
  uint32_t num_choices = 1; ///< that may run there at the same time
  uint64_t kv_tokens = 0;   ///< that are set aside for them together
  /// The numerics classes of attention and expert workers, one after the other: an answer that has begun goes
  /// on in the same ones only. Empty: in any.
  std::string numerics{};
  bool operator==(const assignment&) const = default;
};

TROUPE_DECLARE_INSPECT(admission_request)
TROUPE_DECLARE_INSPECT(assignment)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_admission, troupe::first_type_id::of_admission)
  CAF_ADD_TYPE_ID(troupe_admission, (troupe::admission_request))
  CAF_ADD_TYPE_ID(troupe_admission, (troupe::assignment))
CAF_END_TYPE_ID_BLOCK(troupe_admission)
