#include "actors/scheduler/member_links.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"
#include "actors/protocol/trace_control_actor.hpp"

namespace troupe {

void member_links::add(worker_id id, const caf::strong_actor_ptr& member) {
  auto& link = links_[id];
  if (link)
    self_->demonitor(link.address());
  link = caf::actor_cast<member_actor>(member);
  self_->monitor(link);
}

void member_links::remove(worker_id id) {
  if (auto found = links_.find(id); found != links_.end()) {
    self_->demonitor(found->second.address());
    links_.erase(found);
  }
}

void member_links::add_gateway(const caf::strong_actor_ptr& gateway) {
  const auto address = caf::actor_cast<caf::actor_addr>(gateway);
  if (std::find(gateways_.begin(), gateways_.end(), address) != gateways_.end())
    return;
  self_->monitor(gateway);
  gateways_.push_back(address);
}

std::set<worker_id> member_links::ids() const {
  std::set<worker_id> result;
  for (const auto& [id, link] : links_)
    result.insert(id);
  return result;
}

std::optional<worker_id> member_links::find(const caf::actor_addr& member) const {
  for (const auto& [id, link] : links_)
    if (link.address() == member)
      return id;
  return std::nullopt;
}

void member_links::send_fence(worker_id id) const {
  self_->send(links_.at(id), fence_atom_v);
}

void member_links::send_ready(worker_id id) const {
  self_->send(links_.at(id), ready_atom_v);
}

void member_links::send_views(const view_messages& messages, const member_table& members) const {
  const auto for_attention = caf::make_message(messages.with_layers);
  const auto for_gateways = caf::make_message(messages.without_layers);
  for (const auto& [id, link] : links_)
    if (const auto role = members.find(id)->hello.address.role; role != worker_role::expert)
      caf::anon_send(caf::actor_cast<caf::actor>(link),
                     role == worker_role::attention ? for_attention : for_gateways);
}

void member_links::send_order(worker_id id, host_order order, report_handler when_done) const {
  self_->request(links_.at(id), defaults::host_order_timeout, std::move(order))
      .then([when_done](const host_report& report) { when_done(&report, report.error); },
            [when_done](const caf::error& error) { when_done(nullptr, text_of(error)); });
}

void member_links::send_trace(worker_id id, const trace_command& command) const {
  self_->request(caf::actor_cast<trace_control_actor>(links_.at(id)), defaults::local_request, command)
      .then([](const trace_receipt&) {},
            [](const caf::error&) {
              // It has gone again, or says at the next command why it does not trace.
            });
}

std::shared_ptr<trace_answers>
member_links::send_trace(const trace_command& command, const member_table& members,
                         std::function<void(const trace_receipt&)> answer) const {
  const auto receipts = std::make_shared<trace_answers>(links_.size() + 1, std::move(answer));
  for (const auto& [id, link] : links_) {
    const auto* member = members.find(id);
    const auto name = member == nullptr ? std::string{"a worker that is gone"} : member->hello.address.name;
    self_->request(caf::actor_cast<trace_control_actor>(link), defaults::local_request, command)
        .then([receipts](const trace_receipt& part) { receipts->add(part); },
              [receipts, name](const caf::error& error) {
                receipts->add({{{name, "it does not answer: " + text_of(error)}}});
              });
  }
  return receipts;
}

} // namespace troupe
