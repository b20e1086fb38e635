// The attention worker's way to the experts: sends the rows of a MoE layer to their hosts, and brings every
// row back exactly once, whatever happens to a host on the way.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <caf/fwd.hpp>

#include "actors/attention/attention_worker.hpp"
#include "actors/attention/dispatch_policy.hpp"
#include "actors/attention/hedge_budget.hpp"
#include "actors/expert/expert_host.hpp"

namespace troupe {

/// Part of the attention worker's state; runs on its thread.
///
/// An expert batch that fails goes to another host at once; where there is none its rows wait for a view that
/// brings one, or for the host to be worth asking again. A batch that takes too long is sent to a replica as
/// well, as far as the budget for that goes, and one that takes far too long once more to whoever there is.
/// Batches are pure, so the first answer wins, from whichever copy, and later ones are dropped.
class expert_dispatcher {
 public:
  /// What came of a dispatch.
  struct listener {
    /// Every slot is answered exactly once. @param expert_ns  computing on the slowest host
    std::function<void(uint32_t micro_batch, std::vector<expert_outputs> outputs, uint64_t expert_ns)>
        complete;
    /// It cannot be answered.
    std::function<void(uint32_t micro_batch, ec code, std::string text)> failed;
  };

  /// @param self  the actor; outlives this
  expert_dispatcher(attention_worker_actor::pointer self, const attention_worker_config& config,
                    listener results);

  /// Sends the rows of a layer. A micro-batch has one dispatch at a time.
  /// @param trace  the micro-batch's key in the timeline; 0: it is not traced
  void dispatch(uint32_t micro_batch, moe_dispatch wanted, uint64_t trace = 0);

  /// Nobody waits for this micro-batch any more.
  void drop(uint32_t micro_batch);

  /// Workers and placement have changed.
  void update(const cluster_view& view);

  /// A monitored actor is down. @returns whether it was an expert host
  bool down(const caf::actor_addr& address);

  /// Looks for batches that wait too long or may find a host now.
  void tick();

  /// Hosts that owe answers and have given none for longer than defaults::engine_stall.
  std::vector<complaint> complaints() const;

  uint64_t retries() const { return retries_; }

  /// By which rows are sent to hosts; epoch 0 before the first view.
  const placement& routing() const { return placement_; }

 private:
  using time_point = std::chrono::steady_clock::time_point;

  /// A host that the view names, or that still owes answers.
  struct known_host {
    worker_address address;
    bool known = false; ///< the view has it
    bool resolving = false;
    expert_host_actor handle;
    uint64_t outstanding_rows = 0;
    queue_news others;     ///< what it holds of other attention workers
    bool is_named = false; ///< the timeline knows its name
    /// When it was first sent something that it has not answered with anything, be it that the batch was
    /// given up; empty: nothing was sent since its last answer.
    std::optional<time_point> silent_since;
    time_point avoid_until{};
    std::chrono::milliseconds pause{0};    ///< before it is asked again; doubles
    std::vector<uint64_t> awaiting_handle; ///< batches
    /// Layers whose placement it has contradicted: version that it contradicted, and until when that counts.
    std::map<uint32_t, std::pair<uint64_t, time_point>> moved;
  };

  /// A layer of a micro-batch whose rows are not all back.
  struct flight {
    uint64_t serial = 0;
    uint64_t trace = 0;
    moe_dispatch dispatch;
    std::vector<bool> answered; ///< by slot
    size_t missing = 0;
    std::vector<expert_outputs> outputs;
    std::vector<expert_entries> parked; ///< wait for a host
    time_point progress{};              ///< the dispatch, or the last answer that was news
    uint32_t faults = 0;                ///< answers that a sound host would not give
    uint32_t repeats = 0;               ///< batches that were sent once more; each doubles the patience
    uint64_t expert_ns = 0;
  };

  struct sent_batch {
    worker_id host;
    uint64_t layer_version = 0; ///< that it was routed by
    uint32_t micro_batch = 0;
    uint64_t serial = 0; ///< of the flight
    host_share share;    ///< without `travelling`
    time_point since;
    uint64_t trace = 0; ///< the micro-batch's
    uint64_t flow = 0;  ///< its own name in the timeline; 0: it is not traced
    uint64_t sent_ns = 0;
    bool hedged = false;
    bool hedge_refused = false; ///< the budget was used up
    bool repeated = false;      ///< its rows have been sent once more, and no longer count as outstanding
    expert_batch message;       ///< until the host's handle is known
  };

  void route(uint32_t micro_batch, flight& present, std::vector<expert_entries> entries, worker_id except,
             bool park);
  void send(uint32_t micro_batch, const flight& present, host_share share);
  void deliver(uint64_t number, known_host& entry);
  void resolve(known_host& entry);
  void heard_from(worker_id host);
  void on_result(uint64_t number, expert_result& result);
  void trace_answer(const sent_batch& batch, uint32_t layer, const expert_result& result, uint64_t begin_ns,
                    bool is_last) const;
  void on_error(uint64_t number, const caf::error& error);
  void disconnect(worker_id host, const caf::error& reason);
  void avoid(known_host& entry);
  bool usable(worker_id host, uint32_t layer);
  void retry_parked(uint32_t micro_batch, flight& present);
  void hedge(sent_batch& late);
  void repeat(uint64_t number);
  std::chrono::nanoseconds patience(const sent_batch& batch);
  void look_around();
  std::chrono::nanoseconds expected(size_t num_rows) const;
  std::vector<expert_entries> unanswered(const sent_batch& batch, const flight& present) const;
  flight* flight_of(const sent_batch& batch);
  void fail(uint32_t micro_batch, ec code, std::string text);
  void arm();

  attention_worker_actor::pointer self_;
  const attention_worker_config& config_;
  listener listener_;
  placement placement_;
  std::map<worker_id, known_host> hosts_;
  std::map<uint32_t, flight> flights_;  ///< by micro-batch
  std::map<uint64_t, sent_batch> sent_; ///< not yet answered, also those that nobody waits for any more
  uint64_t last_batch_ = 0;
  uint64_t last_serial_ = 0;
  uint64_t retries_ = 0;
  hedge_budget hedges_;
  bool armed_ = false;
  // Averages over all hosts, so that a slow one is measured against the others.
  double row_ns_ = 0;
  double batch_ns_ = 0;
};

} // namespace troupe
