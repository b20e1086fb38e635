// Which host computes which rows of a MoE layer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/engine/engine.hpp"
#include "actors/ids.hpp"

namespace troupe {

/// Rows that one expert still has to compute: row × num_topk + place, ascending.
struct expert_entries {
  uint32_t expert = 0;
  std::vector<uint32_t> slots;
  bool operator==(const expert_entries&) const = default;
};

/// What one host gets: the table of an expert_batch, and where its answer belongs.
struct host_share {
  worker_id host;
  /// Rows of the dispatch that travel, ascending; row i of the batch is row `travelling[i]` of the dispatch.
  /// When it is all of them, the activations need no copy.
  std::vector<uint32_t> travelling;
  std::vector<uint32_t> experts; ///< ascending
  std::vector<uint32_t> offsets; ///< [experts + 1]
  std::vector<uint32_t> rows;    ///< [offsets.back()], indices into `travelling`
  std::vector<uint32_t> slots;   ///< [offsets.back()], what the answer's rows are
};

struct dispatch_plan {
  std::vector<host_share> shares;       ///< by host
  std::vector<expert_entries> homeless; ///< nobody can compute these now
};

/// The entries of a whole dispatch, active experts only.
/// @errors an empty result and a message in `error` when the table is malformed
std::vector<expert_entries> entries_of(const moe_dispatch& dispatch, std::string& error);

/// What a sender knows of the hosts.
struct host_knowledge {
  std::function<bool(worker_id)> usable;    ///< may be asked for this layer now
  std::function<uint64_t(worker_id)> ahead; ///< rows that it has to compute before what it is sent now
};

/// The rows of other senders that a host is taken to hold: what it said when it last answered, less what of
/// it was this sender's own, fading to nothing within `defaults::queue_news`.
class queue_news {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// @param queued  expert_result::queued_rows
  /// @param own  rows that the host still owes this sender; those on their way to it were not in `queued`
  void heard(uint64_t queued, uint64_t own, time_point now);

  uint64_t rows(time_point now) const;

 private:
  uint64_t rows_ = 0;
  time_point when_{};
};

/// Groups entries by host. Of two hosts of an expert, drawn by a counter-based hash of (salt, layer, expert),
/// the one with fewer rows ahead gets it, what this plan gives it included; so that the same calls give the
/// same plan everywhere. Two and not all: senders that know the same old queues would all run to the same
/// host.
dispatch_plan plan_dispatch(std::span<const expert_entries> entries, uint32_t layer, uint32_t num_topk,
                            const layer_placement& placement, const host_knowledge& hosts, uint64_t salt);

} // namespace troupe
