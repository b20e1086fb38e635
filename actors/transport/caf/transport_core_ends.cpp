// Ends of actors: which peers and actors are told. Proxies, monitors, links.

#include <algorithm>
#include <exception>
#include <utility>

#include <caf/actor_registry.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/exit_reason.hpp>

#include "actors/transport/caf/proxy.hpp"
#include "actors/transport/caf/transport_core.hpp"
#include "actors/transport/wire/wire_context.hpp"
#include "actors/transport/wire/wire_deserializer.hpp"

namespace troupe {

using wire::frame_kind;

caf::strong_actor_ptr transport::core::make_proxy(caf::node_id node, caf::actor_id id) {
  wire::peer_connection_ptr peer;
  {
    std::lock_guard guard{nodes_mutex_};
    if (const auto i = by_node_.find(node); i != by_node_.end())
      peer = i->second;
  }
  if (!peer)
    return nullptr;
  caf::actor_config cfg;
  auto result = caf::make_actor<proxy, caf::strong_actor_ptr>(id, std::move(node), &system_, cfg,
                                                              shared_from_this(), peer);
  wire::outgoing_frame frame{frame_kind::monitor};
  frame.header.destination = id;
  fabric_->submit(peer, std::move(frame));
  return result;
}

void transport::core::on_monitor(const wire::peer_connection_ptr& peer, caf::actor_id id) {
  if (const auto whom = system_.registry().get<caf::strong_actor_ptr>(id))
    watch(peer, whom);
  else
    send_down(peer, id, caf::exit_reason::unknown);
}

void transport::core::watch(const wire::peer_connection_ptr& peer, const caf::strong_actor_ptr& local) {
  const auto id = local->id();
  {
    std::lock_guard guard{watchers_mutex_};
    auto& watchers = watchers_[id];
    const bool watched = !watchers.empty();
    std::erase_if(watchers, [](const auto& x) { return x->current() == wire::peer_connection::state::dead; });
    if (std::find(watchers.begin(), watchers.end(), peer) == watchers.end())
      watchers.push_back(peer);
    if (watched)
      return;
  }
  // Called at once, with the actor's own reason, when it has ended already.
  local->get()->attach_functor([weak = weak_from_this(), id](const caf::error& reason) {
    if (const auto self = weak.lock())
      self->local_actor_ended(id, reason);
  });
}

void transport::core::local_actor_ended(caf::actor_id id, const caf::error& reason) {
  std::vector<wire::peer_connection_ptr> watchers;
  {
    std::lock_guard guard{watchers_mutex_};
    if (const auto i = watchers_.find(id); i != watchers_.end()) {
      watchers = std::move(i->second);
      watchers_.erase(i);
    }
  }
  for (const auto& peer : watchers)
    send_down(peer, id, reason);
}

void transport::core::send_down(const wire::peer_connection_ptr& peer, caf::actor_id id,
                                const caf::error& reason) {
  wire::outgoing_frame frame{frame_kind::down};
  frame.header.source = id;
  caf::binary_serializer sink{system_, frame.head};
  auto copy = reason;
  if (sink(copy)) {
    frame.head.resize(wire::frame_header_bytes);
    copy = caf::exit_reason::unknown;
    [[maybe_unused]] const auto err = sink(copy);
  }
  fabric_->submit(peer, std::move(frame));
}

bool transport::core::on_down(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                              std::span<const std::byte> metadata) {
  caf::error reason;
  wire_context context{&system_};
  wire_deserializer source{&context, metadata};
  try {
    if (source(reason))
      return false;
  } catch (const std::exception&) {
    return false;
  }
  proxies_.erase(node_of(peer), header.source, std::move(reason));
  return true;
}

void transport::core::tell_link(const wire::peer_connection_ptr& peer, frame_kind kind,
                                const caf::strong_actor_ptr& local, caf::actor_id remote) {
  // The caller holds the locks of both actors, and exporting takes one of them.
  fabric_->post([this, peer, kind, local, remote] {
    export_actor(local);
    wire::outgoing_frame frame{kind};
    frame.header.source = local->id();
    frame.header.destination = remote;
    fabric_->submit(peer, std::move(frame));
    // The peer will ask to be told of its end; but by then the actor may have left the registry, and its
    // reason with it.
    if (kind == frame_kind::link)
      watch(peer, local);
  });
}

void transport::core::on_link(const wire::peer_connection_ptr& peer, const wire::frame_header& header) {
  const auto local = system_.registry().get<caf::strong_actor_ptr>(header.destination);
  const auto remote = proxy_for(node_of(peer), header.source);
  if (!local || !remote)
    return;
  auto* as_proxy = static_cast<caf::actor_proxy*>(remote->get());
  if (header.kind == frame_kind::link)
    as_proxy->add_link(local->get());
  else
    as_proxy->remove_link(local->get());
}

} // namespace troupe
