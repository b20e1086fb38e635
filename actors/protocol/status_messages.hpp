// What actors report on status pages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"

namespace troupe {

struct expert_host_status {
  std::vector<expert_id> hosted;
  std::uint64_t queued_rows = 0;
  std::uint64_t batches = 0; ///< answered since the start
  std::uint64_t steps = 0;   ///< grouped GEMMs since the start; fewer than batches if rows were merged
  std::uint64_t rows = 0;    ///< (row, expert) pairs computed since the start
  bool operator==(const expert_host_status&) const = default;
};

struct attention_status {
  std::uint64_t running = 0;
  std::uint64_t waiting = 0;
  std::uint64_t kv_blocks = 0;
  std::uint64_t kv_blocks_used = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t iterations = 0;
  std::uint64_t expert_retries = 0;
  std::uint64_t placement_epoch = 0;
  std::uint64_t kv_blocks_retained = 0; ///< not used, and kept for later prompts
  bool operator==(const attention_status&) const = default;
};

struct worker_status {
  worker_address address;
  lease_renewal load;             ///< the last one
  std::uint64_t lease_age_ms = 0; ///< since the last renewal
  std::vector<expert_id> hosted;
  std::string numerics_class;
  std::uint32_t max_num_seqs = 0;       ///< attention: sequences that run at once
  std::uint64_t kv_capacity_tokens = 0; ///< attention
  std::uint32_t max_model_len = 0;      ///< attention: positions of its longest sequence
  bool operator==(const worker_status&) const = default;
};

struct scheduler_status {
  std::uint64_t term = 0;
  bool ready = false;
  std::string fingerprint;
  placement experts;
  std::vector<worker_status> workers;
  std::uint64_t queued = 0;   ///< requests waiting for a place
  std::uint64_t assigned = 0; ///< requests that have a place
  bool operator==(const scheduler_status&) const = default;
};

TROUPE_DECLARE_INSPECT(expert_host_status)
TROUPE_DECLARE_INSPECT(attention_status)
TROUPE_DECLARE_INSPECT(worker_status)
TROUPE_DECLARE_INSPECT(scheduler_status)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_status, troupe::first_type_id::of_status)
  CAF_ADD_TYPE_ID(troupe_status, (troupe::expert_host_status))
  CAF_ADD_TYPE_ID(troupe_status, (troupe::attention_status))
  CAF_ADD_TYPE_ID(troupe_status, (troupe::scheduler_status))
CAF_END_TYPE_ID_BLOCK(troupe_status)
