// Expert batches: rows from an attention worker to an expert host, and the computed rows that come back.
#pragma once

#include <cstdint>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// Rows of one layer for the experts of one host. The answer is a pure function of the content, so a batch
/// may be sent twice.
///
/// The routing is a sparse matrix in compressed rows: expert `experts[i]` computes the activation rows
/// `rows[offsets[i]] ... rows[offsets[i + 1] - 1]`. A row for several experts of this host travels once.
struct expert_batch {
  std::uint64_t batch = 0;            ///< names the batch in traces; unique per sender
  std::uint32_t micro_batch = 0;      ///< the sender's micro-batch
  std::uint32_t layer = 0;            ///< decoder layer
  std::uint64_t layer_version = 0;    ///< the layer's placement version that routed it
  std::uint32_t num_rows = 0;         ///< rows in `activations`
  std::vector<std::uint32_t> experts; ///< ascending, only experts with rows
  std::vector<std::uint32_t> offsets; ///< [experts.size() + 1]
  std::vector<std::uint32_t> rows;    ///< [offsets.back()], each < num_rows
  payload activations;                ///< [num_rows, hidden], the model's dtype, row-major
  std::uint64_t flow = 0;             ///< identifies the batch in the traces of all processes; 0: not traced
  bool operator==(const expert_batch&) const = default;
};

/// The answer: one unweighted output row per entry of expert_batch::rows, in that order.
struct expert_result {
  std::uint64_t batch = 0;
  payload outputs;              ///< [rows.size(), hidden], the model's dtype, row-major
  std::uint64_t queue_ns = 0;   ///< from arrival to the start of the step
  std::uint64_t compute_ns = 0; ///< duration of the step, which other batches may have shared
  /// (row, expert) pairs of other batches that wait or run at the host when this answer leaves.
  std::uint64_t queued_rows = 0;
  /// Arrival of a traced batch and departure of this answer, by the host's steady clock; else 0.
  std::uint64_t received_ns = 0;
  std::uint64_t answered_ns = 0;
  bool operator==(const expert_result&) const = default;
};

TROUPE_DECLARE_INSPECT(expert_batch)
TROUPE_DECLARE_INSPECT(expert_result)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_expert, troupe::first_type_id::of_expert)
  CAF_ADD_TYPE_ID(troupe_expert, (troupe::expert_batch))
  CAF_ADD_TYPE_ID(troupe_expert, (troupe::expert_result))
CAF_END_TYPE_ID_BLOCK(troupe_expert)
