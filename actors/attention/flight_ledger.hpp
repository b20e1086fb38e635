// The MoE layers that wait for answers, and the expert batches in flight for them. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/attention/dispatch_policy.hpp"
#include "actors/attention/lateness_policy.hpp"
#include "actors/engine/engine.hpp"
#include "actors/protocol/expert_messages.hpp"

namespace troupe {

/// A layer of a micro-batch. Several batches may compute the same slot; the first answer counts.
struct layer_flight {
  using time_point = std::chrono::steady_clock::time_point;

  std::uint32_t micro_batch = 0;
  std::uint64_t serial = 0; ///< differs for each layer of each micro-batch
  std::uint64_t trace = 0;  ///< the micro-batch's key in the timeline; 0: it is not traced
  moe_dispatch dispatch;
  std::vector<bool> is_answered; ///< [slots]
  std::size_t missing = 0;       ///< slots without an answer
  std::vector<expert_outputs> outputs;
  std::vector<expert_entries> parked; ///< entries that wait for a host
  time_point progress{};              ///< the dispatch, or the last answer that filled a slot
  std::uint32_t faults = 0;           ///< answers that a sound host would not give
  std::uint32_t repeats = 0;          ///< batches that were sent once more
  std::uint64_t expert_ns = 0;        ///< computation on the slowest host

  /// Takes the outputs of the slots that have no answer yet; marks the others as unused.
  /// @returns false if all slots were answered before
  bool answer(std::vector<std::uint32_t> slots, payload rows, std::uint64_t compute_ns, time_point now);

  /// The entries of `share` without an answer.
  std::vector<expert_entries> unanswered(const host_share& share) const;

  /// Takes out the parked entries without an answer, in the form of one dispatch: experts ascending, each
  /// slot once. A slot may be parked twice, if a batch and its hedge have failed.
  std::vector<expert_entries> take_parked();
};

/// A batch that is not answered.
struct sent_batch {
  worker_id host;
  std::uint64_t layer_version = 0; ///< placement version that it was routed by
  std::uint32_t micro_batch = 0;
  std::uint64_t serial = 0; ///< of the layer_flight
  host_share share;         ///< without `travelling` and `rows`, which are in the message
  layer_flight::time_point since;
  std::uint64_t trace = 0; ///< the micro-batch's key in the timeline
  std::uint64_t flow = 0;  ///< its own key in the timeline; 0: it is not traced
  std::uint64_t sent_ns = 0;
  bool hedged = false;        ///< a copy was sent to a replica, or it is such a copy
  bool hedge_refused = false; ///< the budget was used up
  bool repeated = false;      ///< its rows were sent once more, and no longer count as outstanding
  expert_batch message;       ///< until the host's handle is known

  std::uint64_t num_rows() const { return share.slots.size(); }
};

class flight_ledger {
 public:
  using time_point = layer_flight::time_point;

  /// Numbers of batches.
  struct late_batches {
    std::vector<std::uint64_t> overdue; ///< to be sent once more
    std::vector<std::uint64_t> late;    ///< to be hedged
  };

  /// Begins a layer in place of the one that the micro-batch had before.
  layer_flight& begin(std::uint32_t micro_batch, moe_dispatch dispatch, std::uint64_t trace, time_point now);

  /// Forgets the layer of a micro-batch; its batches stay until they are answered.
  void end(std::uint32_t micro_batch) { flights_.erase(micro_batch); }

  /// The layer of a micro-batch. @returns null if there is none
  layer_flight* find(std::uint32_t micro_batch);

  /// The layer that a batch was sent for. @returns null if nothing waits for the batch any more
  layer_flight* flight_of(const sent_batch& batch);

  /// Micro-batches with parked entries.
  std::vector<std::uint32_t> parked() const;

  /// A number for a batch; rises.
  std::uint64_t next_number() { return ++last_batch_; }

  void add(std::uint64_t number, sent_batch batch) { sent_.emplace(number, std::move(batch)); }

  /// @returns null if the batch is answered or given up
  sent_batch* batch(std::uint64_t number);

  std::optional<sent_batch> take(std::uint64_t number);

  /// Numbers of the batches that a host has not answered.
  std::vector<std::uint64_t> sent_to(worker_id host) const;

  /// Batches that have waited too long. Forgets repeated ones that nothing waits for.
  late_batches find_late(const lateness_policy& lateness, time_point now);

  bool is_empty() const { return flights_.empty() && sent_.empty(); }

 private:
  std::map<std::uint32_t, layer_flight> flights_; ///< by micro-batch
  std::map<std::uint64_t, sent_batch> sent_;      ///< by number
  std::uint64_t last_serial_ = 0;
  std::uint64_t last_batch_ = 0;
};

} // namespace troupe
