// Decides which host computes which rows of a MoE layer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/engine/engine.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/ids.hpp"

namespace troupe {

/// Rows that one expert still has to compute. A slot is row × num_topk + place in the row's top-k; ascending.
struct expert_entries {
  std::uint32_t expert = 0;
  std::vector<std::uint32_t> slots;
  bool operator==(const expert_entries&) const = default;
};

/// The share of one host: the table of an expert_batch, and the slots that its answer fills.
struct host_share {
  worker_id host;
  /// Rows of the dispatch that are sent, ascending; row i of the batch is row `travelling[i]` of the
  /// dispatch. If all rows are sent, the activations need no copy.
  std::vector<std::uint32_t> travelling;
  std::vector<std::uint32_t> experts; ///< ascending
  std::vector<std::uint32_t> offsets; ///< [experts + 1]
  std::vector<std::uint32_t> rows;    ///< [offsets.back()], indices into `travelling`
  std::vector<std::uint32_t> slots;   ///< [offsets.back()], slots of the answer's rows
};

struct dispatch_plan {
  std::vector<host_share> shares;       ///< by host
  std::vector<expert_entries> homeless; ///< no host can compute these now
};

/// The entries of a whole dispatch, active experts only.
/// @param error  set to a message, with an empty result, if the table is malformed
std::vector<expert_entries> entries_of(const moe_dispatch& dispatch, std::string& error);

/// What a sender knows about the hosts.
struct host_knowledge {
  std::function<bool(worker_id)> usable;         ///< may be asked for this layer now
  std::function<std::uint64_t(worker_id)> ahead; ///< rows that the host has to compute before new ones
};

/// Estimate of the rows of other senders in a host's queue: the length of the queue in its last answer,
/// without this sender's own rows. The estimate falls linearly to 0 within `defaults::queue_news`.
class queue_news {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// @param queued  expert_result::queued_rows
  /// @param own  rows that the host still owes this sender; `queued` may lack those that had not arrived
  void heard(std::uint64_t queued, std::uint64_t own, time_point now);

  std::uint64_t rows(time_point now) const;

 private:
  std::uint64_t rows_ = 0;
  time_point when_{};
};

/// Groups entries by host. Two hosts of an expert are drawn by a counter-based hash of (salt, layer, expert),
/// and the one with fewer rows ahead gets the entries; rows of this plan count too. So the same arguments
/// give the same plan everywhere. Two hosts and not all: senders that know the same old queue lengths would
/// all choose the same host.
dispatch_plan plan_dispatch(std::span<const expert_entries> entries, std::uint32_t layer,
                            std::uint32_t num_topk, const layer_placement& placement,
                            const host_knowledge& hosts, std::uint64_t salt);

} // namespace troupe
