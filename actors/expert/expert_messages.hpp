// Expert batches: what an attention worker sends to an expert host, and the rows that come back.
#pragma once

#include <cstdint>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/declare_inspect.hpp"
#include "actors/first_type_ids.hpp"
#include "actors/ids.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// Rows of one layer for the experts of one host. A pure function of its content: it may be sent twice.
///
/// The routing is a sparse matrix in compressed rows: expert `experts[i]` computes the activation rows
/// `rows[offsets[i]] ... rows[offsets[i + 1] - 1]`. A row that needs several experts of this host travels
/// once.
struct expert_batch {
  uint64_t batch = 0;            ///< names the batch in traces; unique per sender
  uint32_t micro_batch = 0;      ///< the sender's micro-batch
  uint32_t layer = 0;            ///< decoder layer
  uint64_t layer_version = 0;    ///< placement version of the layer that the sender routed by
  uint32_t num_rows = 0;         ///< rows in `activations`
  std::vector<uint32_t> experts; ///< ascending, only experts with rows
  std::vector<uint32_t> offsets; ///< [experts.size() + 1]
  std::vector<uint32_t> rows;    ///< [offsets.back()], each < num_rows
  payload activations;           ///< [num_rows, hidden], the model's dtype, row-major
  uint64_t flow = 0;             ///< names it in the traces of all processes; 0: it is not traced
  bool operator==(const expert_batch&) const = default;
};

/// The answer: one unweighted output row per entry of expert_batch::rows, in that order.
struct expert_result {
  uint64_t batch = 0;
  payload outputs;         ///< [rows.size(), hidden], the model's dtype, row-major
  uint64_t queue_ns = 0;   ///< time between arrival and the start of the step
  uint64_t compute_ns = 0; ///< time of the step, which other batches may have shared
  /// (row, expert) pairs of other batches that the host holds as this answer leaves, waiting or at its
  /// engine.
  uint64_t queued_rows = 0;
  /// Of a batch that is traced, by the host's steady clock: when it had come, and when this left. Otherwise
  /// 0.
  uint64_t received_ns = 0;
  uint64_t answered_ns = 0;
  bool operator==(const expert_result&) const = default;
};

TROUPE_DECLARE_INSPECT(expert_batch)
TROUPE_DECLARE_INSPECT(expert_result)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_expert, troupe::first_type_id::of_expert)
  CAF_ADD_TYPE_ID(troupe_expert, (troupe::expert_batch))
  CAF_ADD_TYPE_ID(troupe_expert, (troupe::expert_result))
CAF_END_TYPE_ID_BLOCK(troupe_expert)
