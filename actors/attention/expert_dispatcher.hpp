// Sends the rows of a MoE layer to expert hosts and returns every row exactly once, whatever happens to a
// host meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <caf/fwd.hpp>

#include "actors/attention/attention_worker.hpp"
#include "actors/attention/flight_ledger.hpp"
#include "actors/attention/host_book.hpp"
#include "actors/attention/lateness_policy.hpp"

namespace troupe {

/// Part of the attention worker's state; runs on its thread. It sends and receives; decisions are made by
/// `host_book`, `flight_ledger` and `lateness_policy`.
///
/// The rows of a batch that fails go to another host at once. If there is none, they are parked until a view
/// brings one or a host that failed may be asked again. A late batch is hedged, and an overdue one is sent
/// once more to any host (lateness_policy.hpp). Batches are pure, so the first answer to a row counts,
/// whichever copy it is of, and later ones are dropped.
class expert_dispatcher {
 public:
  /// How dispatches end.
  struct listener {
    /// Every slot is answered exactly once. @param expert_ns  computation on the slowest host
    std::function<void(std::uint32_t micro_batch, std::vector<expert_outputs> outputs,
                       std::uint64_t expert_ns)>
        complete;
    /// The dispatch cannot be answered.
    std::function<void(std::uint32_t micro_batch, ec code, std::string text)> failed;
  };

  /// @param self  the actor; outlives this
  expert_dispatcher(local_attention_worker_actor::pointer self, const attention_worker_config& config,
                    listener results);

  /// Sends the rows of a layer. A micro-batch has one dispatch at a time.
  /// @param trace  the micro-batch's key in the timeline; 0: it is not traced
  void dispatch(std::uint32_t micro_batch, moe_dispatch wanted, std::uint64_t trace = 0);

  /// The outputs of this micro-batch are not needed any more.
  void drop(std::uint32_t micro_batch) { flights_.end(micro_batch); }

  /// Workers and placement have changed.
  void update(const cluster_view& view);

  /// A monitored actor is down. @returns whether it was an expert host
  bool down(const caf::actor_addr& address);

  /// Looks for late batches, and for hosts of parked entries.
  void tick();

  /// Hosts that owe answers and have given none for longer than defaults::engine_stall.
  std::vector<complaint> complaints() const { return hosts_.complaints(now()); }

  std::uint64_t retries() const { return retries_; }

  /// By which rows are sent to hosts; epoch 0 before the first view.
  const placement& routing() const { return hosts_.routing(); }

 private:
  host_book::time_point now() const;
  std::uint64_t route(layer_flight& present, const std::vector<expert_entries>& entries,
                      std::optional<worker_id> hedged = std::nullopt);
  void send(const layer_flight& present, host_share share, bool is_hedge);
  void deliver(std::uint64_t number, known_host& host);
  void resolve(known_host& host);
  void disconnect(worker_id id, const caf::error& reason);
  void heard_from(worker_id id);
  void on_result(std::uint64_t number, expert_result& result);
  void on_error(std::uint64_t number, const caf::error& error);
  void retry(layer_flight& present, const std::vector<expert_entries>& entries, ec code);
  void retry_parked(layer_flight& present);
  void look_around();
  void hedge(sent_batch& late);
  void repeat(std::uint64_t number);
  void fail(const layer_flight& present, ec code, std::string text);
  void arm();

  local_attention_worker_actor::pointer self_;
  const attention_worker_config& config_;
  listener listener_;
  host_book hosts_;
  flight_ledger flights_;
  lateness_policy lateness_;
  std::uint64_t retries_ = 0;
  bool armed_ = false;
};

} // namespace troupe
