// A message from a peer in the mailbox of its receiver.
#pragma once

#include <memory>
#include <utility>

#include <caf/mailbox_element.hpp>
#include <caf/message.hpp>

#include "actors/transport/caf/transport_core.hpp"

namespace troupe {

/// Gives the sender its credit back when it is destroyed, on any thread: when its actor has handled it, or
/// has ended, or no actor has taken it. An actor that keeps or forwards it keeps the credit, too. Whoever
/// awaits an answer has handled the message that made him ask, so no credit waits for another one.
class arrived_message final : public caf::mailbox_element {
 public:
  arrived_message(caf::strong_actor_ptr from, caf::message_id id, forwarding_stack further,
                  caf::message content, std::weak_ptr<transport::core> core, wire::peer_connection_ptr peer,
                  wire::credit due)
      : caf::mailbox_element(std::move(from), id, std::move(further)),
        content_(std::move(content)),
        core_(std::move(core)),
        peer_(std::move(peer)),
        due_(due) {}

  ~arrived_message() override {
    if (const auto core = core_.lock())
      core->handled(peer_, due_);
  }

  caf::type_erased_tuple& content() override { return content_; }

  const caf::type_erased_tuple& content() const override { return content_; }

  caf::message move_content_to_message() override { return std::move(content_); }

  caf::message copy_content_to_message() const override { return content_; }

 private:
  caf::message content_;
  const std::weak_ptr<transport::core> core_;
  const wire::peer_connection_ptr peer_;
  const wire::credit due_;
};

} // namespace troupe
