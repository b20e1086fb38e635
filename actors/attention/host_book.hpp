// The expert hosts that an attention worker knows: their addresses and handles, which experts each one has,
// and which of them may be asked now. Pure: time is a parameter, and handles are only kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <caf/fwd.hpp>

#include "actors/attention/dispatch_policy.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/expert_host_actor.hpp"

namespace troupe {

/// One expert host.
struct known_host {
  using time_point = std::chrono::steady_clock::time_point;

  worker_address address;
  bool in_view = false;   ///< false: it has left the cluster, and still owes rows or a handle
  bool is_named = false;  ///< the timeline has its name
  bool resolving = false; ///< the directory looks for its handle
  expert_host_actor handle;
  std::vector<std::uint64_t> awaiting_handle; ///< numbers of batches
  std::uint64_t outstanding_rows = 0;         ///< sent and not answered yet
  queue_news others;                          ///< rows of other attention workers in its queue
  /// Send time of the oldest batch since the host's last answer of any kind, abandoned batches included;
  /// empty if there is none.
  std::optional<time_point> silent_since;
  time_point avoid_until{};
  std::chrono::milliseconds pause{0}; ///< length of the last avoidance; the next one is twice as long
  /// Layers that it has refused: version of the placement that it contradicted, and until when that counts.
  std::map<std::uint32_t, std::pair<std::uint64_t, time_point>> moved;

  /// A batch of `num_rows` rows was answered with outputs. @param queued_rows  as in expert_result
  void answered(std::uint64_t num_rows, std::uint64_t queued_rows, time_point now);

  /// It has failed: it is not asked for a while. Further failures during that time change nothing, since
  /// several batches of one failure count as one.
  void avoid(time_point now);

  /// It does not have an expert of `layer` that version `version` of the placement says it has.
  void contradict(std::uint32_t layer, std::uint64_t version, time_point now);

  /// It has ended or cannot be reached.
  void disconnect(time_point now);
};

/// The hosts that the newest view names, and those that still owe answers.
class host_book {
 public:
  using time_point = known_host::time_point;

  /// Takes over the hosts and the placement of `view`. @returns false if the view is older than the last one
  bool update(const cluster_view& view);

  /// Hosts that the view does not name any more.
  std::vector<worker_id> gone() const;

  /// Removes the hosts that are gone and that nothing waits for.
  void forget_gone();

  known_host& at(worker_id host) { return hosts_.at(host); }

  /// @returns null if the host is not known
  known_host* find(worker_id host);

  std::optional<worker_id> host_with(const caf::actor_addr& address) const;

  /// By which rows are sent; epoch 0 before the first view.
  const placement& routing() const { return placement_; }

  /// Divides rows among the hosts that may be asked. @param except  a host that is not asked
  dispatch_plan plan(std::span<const expert_entries> entries, std::uint32_t layer, std::uint32_t num_topk,
                     std::optional<worker_id> except, std::uint64_t salt, time_point now);

  /// Hosts of the view that owe answers and have given none for longer than defaults::engine_stall.
  std::vector<complaint> complaints(time_point now) const;

 private:
  bool usable(worker_id host, std::uint32_t layer, time_point now);

  placement placement_;
  std::map<worker_id, known_host> hosts_;
};

} // namespace troupe
