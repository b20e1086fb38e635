// Which requests may run, in which order, and what they hold: the bounded queue in front of the attention
// workers and the budgets of those. Pure: time is a parameter, and equal calls give equal answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/error.hpp>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/defaults.hpp"
#include "actors/error.hpp"
#include "actors/scheduler/admission_messages.hpp"
#include "actors/scheduler/answer_lengths.hpp"
#include "actors/scheduler/assignment_policy.hpp"
#include "actors/scheduler/fair_queue.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/queue_rate.hpp"

namespace troupe {

class admission_policy {
 public:
  struct placed {
    request_id id;
    worker_id worker;
    uint32_t num_choices = 1; ///< that may run there at the same time
    uint64_t kv_tokens = 0;   ///< set aside for them together
    std::chrono::nanoseconds waited{0};
  };

  struct refused {
    request_id id;
    caf::error error;
  };

  /// What may wait for a place; what is promised is not counted, and takes no room from the rest.
  struct bounds {
    uint64_t bytes = defaults::max_queued_bytes; ///< by `queue_bytes_of`; one request alone is always taken
    size_t requests = defaults::max_num_queued_reqs; ///< 0: as many as fit
    /// How long new requests may wait: more than would have a place by then are refused, and so is one that
    /// has waited so long. 0: no longer than their deadlines.
    std::chrono::milliseconds wait{0};
  };

  /// KV tokens of all workers together.
  struct memory {
    uint64_t reserved = 0; ///< set aside for those that have a place
    uint64_t used = 0;     ///< as the workers have last said
    uint64_t capacity = 0;
  };

  explicit admission_policy(bounds most, answer_lengths::settings learning = {});

  /// Adds an attention worker, or replaces what is known of it. Requests that it says to be running, and that
  /// neither have a place yet nor were named by a gateway (`adopt`), get one there: their true need is
  /// unknown, so each sequence takes an even share of KV.
  void add_worker(const worker_hello& hello);

  /// A gateway that joins (again) says what its request holds; whatever was known of it is replaced.
  /// Remembered until the worker is here.
  void adopt(const held_place& place);

  /// The worker is gone, and with it the places there: whoever had one asks again.
  void remove_worker(worker_id id);

  /// Nothing new for this worker.
  void retire_worker(worker_id id);

  /// Takes note of the memory that the worker uses, and frees restored places (from `add_worker`) whose
  /// sequences it no longer counts, by its own count less what is placed there otherwise. The surplus of
  /// freeing early queues at the worker.
  void reconcile(const lease_renewal& load);

  /// Takes a request into the queue. Errors: ec::bad_request (nothing is asked for, or the tenant's name is
  /// too long), ec::overloaded (the queue of new requests is full, and no other tenant has more in it for its
  /// weight; replays and followers do not count), ec::context_exceeded (one sequence of it fits no worker
  /// that is here, however idle, should it grow to all that it may). A known id replaces the earlier request.
  caf::error enqueue(const admission_request& request, time_point now);

  /// Those that `enqueue` has put out of a full queue, since it was last asked: their tenants had more in it
  /// than that of the request that came.
  std::vector<refused> take_displaced() { return std::exchange(displaced_, {}); }

  /// Gives places in the order of the queue (see `fair_queue`). Room is set aside for a prompt and the new
  /// tokens that are likely (see `answer_lengths`), not for all that it may have. Where no worker could
  /// ever hold all choices of a request it gets a place for as many as the widest one holds. Requests of
  /// which one sequence fits none of the workers that are here are passed over, and for
  /// `defaults::avoid_wait` those for which only a worker that they avoid has room.
  std::vector<placed> place(time_point now);

  /// Takes requests out whose time is up: ec::not_ready when `is_ready` is false or nobody could run it,
  /// ec::deadline_exceeded otherwise.
  std::vector<refused> expire(time_point now, bool is_ready);

  /// A request that has a place has got so many tokens, an answer of several on average: what is likely is
  /// learned from it.
  void answered(request_id id, uint32_t num_tokens);

  /// The request is over, wherever it is. Remembered for a while when it is unknown, so that a worker that
  /// still counts it does not bring it back.
  void release(request_id id);

  /// Positions of the longest sequence that a worker takes; 0 when nobody is here.
  uint64_t longest_context() const;

  bool has_request(request_id id) const { return queue_.contains(id) || places_.contains(id); }

  size_t num_queued() const { return queue_.size(); }

  /// What `bounds::bytes` bounds.
  uint64_t queued_bytes() const { return queue_.new_requests().bytes; }

  size_t num_placed() const { return places_.size(); }

  memory kv_tokens() const;

  /// New tokens that a request without a limit is likely to get.
  uint32_t likely_new_tokens() const { return lengths_.likely(); }

  size_t num_placed(worker_id id) const;
  /// Null for a worker that is not here.
  const attention_budget* budget(worker_id id) const;

 private:
  struct place_entry {
    worker_id worker;
    uint64_t num_seqs = 0;
    uint64_t kv_tokens = 0;
    bool restored = false;   ///< known from the worker alone
    uint32_t most_new = 0;   ///< tokens of an answer; 0: unknown
    std::string tenant = {}; ///< likewise
  };

  struct worker_entry {
    attention_budget budget;
    bool retired = false;
  };

  bool has_workers() const;
  bool has_room() const;
  attention_need need_of(const admission_request& request) const;
  bool can_ever_place(const attention_need& need) const;
  caf::error too_long(const attention_need& need) const;
  caf::error make_room(const admission_request& request, uint64_t tokens);
  std::optional<fair_queue::measure> excess(const fair_queue::amount& waiting) const;
  std::string why_too_much(fair_queue::measure by, const fair_queue::amount& waiting,
                           const fair_queue::amount& own) const;
  bool withdraw(request_id id);
  void free_place(request_id id);
  void take_place(request_id id, const place_entry& entry);

  bounds most_;
  fair_queue queue_;
  queue_rate rate_;
  answer_lengths lengths_;
  std::vector<refused> displaced_;
  std::map<request_id, place_entry> places_;
  std::map<worker_id, worker_entry> workers_;
  std::map<request_id, held_place> adopted_early_; ///< their worker is not here yet
  std::deque<request_id> released_early_;
};

} // namespace troupe
