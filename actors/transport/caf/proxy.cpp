#include "actors/transport/caf/proxy.hpp"

#include <utility>

#include <caf/exit_reason.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/system_messages.hpp>

namespace troupe {

proxy::proxy(caf::actor_config& cfg, std::shared_ptr<transport::core> owner, wire::peer_connection_ptr peer)
    : caf::actor_proxy(cfg), owner_(std::move(owner)), peer_(std::move(peer)) {}

void proxy::enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) {
  const auto& content = what->content();
  if (content.size() == 1 && content.match_element<caf::exit_msg>(0)) {
    // A terminated actor answers a link with an exit message while its lock and ours are held; unlinking and
    // writing the message down take those locks again.
    owner_->ship_exit(peer_, caf::strong_actor_ptr{ctrl()}, std::move(what));
    return;
  }
  if (getf(is_terminated_flag)) {
    bounce(what);
    return;
  }
  owner_->ship(peer_, *what, id());
}

bool proxy::add_backlink(caf::abstract_actor* other) {
  if (!caf::monitorable_actor::add_backlink(other))
    return false;
  owner_->tell_link(peer_, wire::frame_kind::link, other->ctrl(), id());
  return true;
}

bool proxy::remove_backlink(caf::abstract_actor* other) {
  if (!caf::monitorable_actor::remove_backlink(other))
    return false;
  owner_->tell_link(peer_, wire::frame_kind::unlink, other->ctrl(), id());
  return true;
}

void proxy::kill_proxy(caf::execution_unit* host, caf::error reason) {
  cleanup(std::move(reason), host);
}

const char* proxy::name() const {
  return "transport-proxy";
}

} // namespace troupe
