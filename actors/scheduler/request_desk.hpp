// Requests that wait for a place among the attention workers, and those that have one: which gateway each
// belongs to, what it is answered, and when its place is free again. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <caf/error.hpp>
#include <caf/expected.hpp>
#include <caf/node_id.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/scheduler/admission_policy.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"

namespace troupe {

class request_desk {
 public:
  using answer = std::function<void(const caf::expected<assignment>&)>;
  using actor_key = std::pair<caf::node_id, caf::actor_id>; ///< a gateway actor; (none, 0): unknown

  /// @param metrics  not null
  request_desk(admission_policy policy, std::shared_ptr<scheduler_metrics> metrics)
      : admission_(std::move(policy)), metrics_(std::move(metrics)) {}

  /// The policy that places requests. Attention workers are reported to it directly.
  admission_policy& admission() { return admission_; }

  const admission_policy& admission() const { return admission_; }

  // Requests.

  /// A request asks for a place. It is answered once.
  /// @param from  the actor that asks; empty: unknown
  /// @returns false when it is refused at once
  bool admit(const admission_request& request, const std::optional<actor_key>& from, answer reply,
             time_point now);
  /// Places what has a place to go to, and answers it.
  void place(const member_table& members, time_point now);
  /// The request is over, wherever it is.
  /// @param num_tokens  of its answer, of several on average; 0: unknown
  void done(request_id id, std::uint32_t num_tokens);
  /// Refuses what has waited too long, and frees the places that lost gateways have not come back for.
  /// @param is_ready  see admission_policy::expire
  void expire(time_point now, bool is_ready);
  /// Renewals could not be read for this long: gateways get as much longer to come back.
  void extend(time_point::duration by);
  /// Refuses what waits.
  void shut_down(const caf::error& reason);

  // Gateways.

  /// A gateway that joins says which of its requests have places. Its other requests are over.
  void adopt(const worker_hello& gateway);
  /// The way to the gateway is lost: its requests that have a place keep it for a lease, the others are over.
  void cut(worker_id gateway, time_point now);
  /// The gateway is gone. Requests that keep their places after `cut` go on keeping them.
  void removed(worker_id gateway);
  /// A gateway actor has ended, or the way to it is lost.
  void actor_down(const actor_key& gateway, bool is_cut, time_point now);

  void report_load() const;

 private:
  /// Which gateway a request belongs to.
  struct ownership {
    actor_key actor;
    worker_id gateway;                    ///< 0: it has not said so
    std::optional<time_point> kept_until; ///< the way to the gateway is lost: it may come back until then
    request_context context;              ///< empty for one that was adopted
    std::uint32_t attempt = 0;            ///< likewise 0
  };

  using owner_test = std::function<bool(const ownership&)>;

  void event(request_id id, const char* what, const std::string& text) const;
  void trace_place(request_id id, worker_id worker, std::chrono::nanoseconds waited) const;
  /// Answers the request if it waits.
  void reply(request_id id, const caf::expected<assignment>& with);
  void refuse(request_id id, const caf::error& error);
  /// Takes a request out, wherever it is, without giving its place to another one yet.
  /// @param reason  its answer, if it waits
  void forget(request_id id, const caf::error& reason);
  /// Ends the requests of owners that have gone.
  /// @param is_cut  only the way to them is lost: what has a place keeps it for a lease
  void orphan(const owner_test& is_its, bool is_cut, time_point now);

  admission_policy admission_;
  std::shared_ptr<scheduler_metrics> metrics_;
  std::map<request_id, answer> waiting_;
  std::map<request_id, ownership> owners_; // of requests that wait or have a place
};

} // namespace troupe
