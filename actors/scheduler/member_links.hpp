// The members' and the gateways' actors: the scheduler monitors them, and sends members what it has decided.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/protocol/member_actor.hpp"
#include "actors/protocol/trace_messages.hpp"
#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/trace_desk.hpp"
#include "actors/scheduler/view_desk.hpp"

namespace troupe {

class member_links {
 public:
  explicit member_links(scheduler_interface::pointer self = nullptr) : self_(self) {}

  /// A member joins, for the first time or again.
  void add(worker_id id, const caf::strong_actor_ptr& member);
  void remove(worker_id id);

  /// An actor that asks for requests is monitored from its first question on.
  void add_gateway(const caf::strong_actor_ptr& gateway);

  /// @returns false when it is no gateway that has asked
  bool forget_gateway(const caf::actor_addr& gateway) { return std::erase(gateways_, gateway) > 0; }

  bool is_empty() const { return links_.empty(); }

  std::set<worker_id> ids() const;
  std::optional<worker_id> find(const caf::actor_addr& member) const;

  void send_fence(worker_id id) const;
  void send_ready(worker_id id) const;
  /// Sends each member the form of the view for its role.
  void send_views(const view_messages& messages, const member_table& members) const;
  /// @param report  null when there is none: `error` says why
  using report_handler = std::function<void(const host_report* report, const std::string& error)>;
  void send_order(worker_id id, host_order order, report_handler when_done) const;
  /// Tells one member to trace, without waiting for its receipt.
  void send_trace(worker_id id, const trace_command& command) const;
  /// Tells all members to trace.
  /// @param answer  called once with the receipts of all members and one that the caller adds
  std::shared_ptr<trace_answers> send_trace(const trace_command& command, const member_table& members,
                                            std::function<void(const trace_receipt&)> answer) const;

 private:
  scheduler_interface::pointer self_;
  std::map<worker_id, member_actor> links_;
  std::vector<caf::actor_addr> gateways_;
};

} // namespace troupe
