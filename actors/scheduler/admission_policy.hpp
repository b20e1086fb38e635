// Which requests may run, in which order, and what they hold: the bounded queue in front of the attention
// workers, and the workers' budgets. Pure: time is a parameter, and equal calls give equal answers.
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

#include "actors/protocol/admission_messages.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/scheduler/answer_lengths.hpp"
#include "actors/scheduler/assignment_policy.hpp"
#include "actors/scheduler/fair_queue.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/prefix_index.hpp"
#include "actors/scheduler/queue_rate.hpp"

namespace troupe {

class admission_policy {
 public:
  struct placed {
    request_id id;
    worker_id worker;
    std::uint32_t num_choices = 1; ///< that may run there at the same time
    std::uint64_t kv_tokens = 0;   ///< reserved for them together
    std::chrono::nanoseconds waited{0};
  };

  struct refused {
    request_id id;
    caf::error error;
  };

  /// Limits of what may wait for a place. Promised requests are not counted.
  struct bounds {
    std::uint64_t bytes =
        defaults::max_queued_bytes; ///< by `queue_bytes_of`; one request alone is always taken
    std::size_t requests = defaults::max_num_queued_reqs; ///< 0: as many as fit
    /// Longest wait of new requests. A request that would wait longer is refused at once, and one that has
    /// waited this long is refused then. 0: until their deadlines.
    std::chrono::milliseconds wait{0};
  };

  /// KV tokens of all workers together.
  struct memory {
    std::uint64_t reserved = 0; ///< for requests that have a place
    std::uint64_t used = 0;     ///< as last reported by the workers
    std::uint64_t capacity = 0;
  };

  explicit admission_policy(bounds most, answer_lengths::settings learning = {});

  /// Adds an attention worker, or replaces what is known of it. Requests that it reports as running get a
  /// place there, unless they have one already or a gateway has named them (`adopt`). Their true need is
  /// unknown, so each sequence takes an even share of KV.
  void add_worker(const worker_hello& hello);

  /// A gateway that joins (again) says what its request holds, which replaces what was known of the request.
  /// It is remembered until the worker joins.
  void adopt(const held_place& place);

  /// The worker is gone, and with it the places there: their requests ask again.
  void remove_worker(worker_id id);

  /// The worker gets no new requests.
  void retire_worker(worker_id id);

  /// Takes note of the memory that the worker uses and of the beginnings that it knows. Frees restored places
  /// (from `add_worker`) whose sequences the worker no longer counts: its own count minus what is placed
  /// there otherwise. If that is too early, the surplus queues at the worker.
  void reconcile(const lease_renewal& load);

  /// Takes a request into the queue. A known id replaces the earlier request.
  /// @errors ec::bad_request (nothing is asked for, or the tenant's name is too long), ec::overloaded (the
  /// queue of new requests is full, and no other tenant has more in it for its weight; replays and followers
  /// do not count), ec::context_exceeded (one sequence of it fits no worker that is here, however idle,
  /// should it grow to all that it may)
  caf::error enqueue(const admission_request& request, time_point now);

  /// Takes the requests that `enqueue` has displaced from a full queue since the last call: their tenants had
  /// more in it than the tenant of the new request.
  std::vector<refused> take_displaced() { return std::exchange(displaced_, {}); }

  /// Gives places in the order of the queue (see `fair_queue`). Room is reserved for a prompt and the likely
  /// number of new tokens (see `answer_lengths`), not for all that may come, nor for what another request
  /// with a place there holds of the prompt. If no worker could ever hold all choices of a request, it gets a
  /// place for as many as the widest worker holds. A request is passed over while no present worker fits one
  /// sequence of it, and for `defaults::avoid_wait` while only workers that it avoids have room.
  std::vector<placed> place(time_point now);

  /// Takes out the requests whose time is up: ec::not_ready when `is_ready` is false or no worker could run
  /// it, ec::deadline_exceeded otherwise.
  std::vector<refused> expire(time_point now, bool is_ready);

  /// A request that has a place has got this number of tokens (on average, if it has several answers): likely
  /// lengths are learned from it.
  void answered(request_id id, std::uint32_t num_tokens);

  /// The request is over, wherever it is. An unknown request is remembered for a while, so that a worker that
  /// still counts it does not bring it back.
  void release(request_id id);

  /// Positions of the longest sequence that a worker takes; 0 without workers.
  std::uint64_t longest_context() const;

  bool has_request(request_id id) const { return queue_.contains(id) || places_.contains(id); }

  std::size_t num_queued() const { return queue_.size(); }

  /// The amount that `bounds::bytes` limits.
  std::uint64_t queued_bytes() const { return queue_.new_requests().bytes; }

  std::size_t num_placed() const { return places_.size(); }

  memory kv_tokens() const;

  /// New tokens that a request without a limit is likely to get.
  std::uint32_t likely_new_tokens() const { return lengths_.likely(); }

  std::size_t num_placed(worker_id id) const;
  /// Null for a worker that is not here.
  const attention_budget* budget(worker_id id) const;

 private:
  struct place_entry {
    worker_id worker;
    std::uint64_t num_seqs = 0;
    std::uint64_t kv_tokens = 0;
    bool restored = false;      ///< known only from the worker
    std::uint32_t most_new = 0; ///< tokens of an answer; 0: unknown
    std::string tenant = {};    ///< likewise
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
  caf::error make_room(const admission_request& request, std::uint64_t tokens);
  std::optional<fair_queue::measure> excess(const fair_queue::amount& waiting) const;
  std::string why_too_much(fair_queue::measure by, const fair_queue::amount& waiting,
                           const fair_queue::amount& own) const;
  bool withdraw(request_id id);
  void free_place(request_id id);
  void take_place(request_id id, const place_entry& entry);
  std::uint64_t likely_tokens(const admission_request& request, const attention_need& need) const;

  bounds most_;
  fair_queue queue_;
  queue_rate rate_;
  answer_lengths lengths_;
  std::vector<refused> displaced_;
  std::map<request_id, place_entry> places_;
  std::map<worker_id, worker_entry> workers_;
  prefix_index prefixes_;
  std::map<request_id, held_place> adopted_early_; ///< their worker has not joined yet
  std::deque<request_id> released_early_;
};

} // namespace troupe
