// Names: what is published here, and what peers have published.

#include <utility>

#include "actors/transport/caf/transport_core.hpp"

namespace troupe {

using wire::frame_kind;

void transport::core::publish(const std::string& name, const caf::strong_actor_ptr& whom) {
  export_actor(whom);
  std::lock_guard guard{published_mutex_};
  published_[name] = whom;
}

void transport::core::unpublish(const std::string& name) {
  std::lock_guard guard{published_mutex_};
  published_.erase(name);
}

caf::expected<caf::strong_actor_ptr> transport::core::find_published(const std::string& name) const {
  std::lock_guard guard{published_mutex_};
  const auto i = published_.find(name);
  if (i == published_.end())
    return make_error(transport_error::no_such_service, name);
  return i->second;
}

void transport::core::resolve(std::string endpoint, std::string name, wire::clock::time_point deadline,
                              on_resolved done) {
  fabric_->connect(std::move(endpoint), deadline,
                   [this, name = std::move(name), deadline,
                    done = std::move(done)](const wire::fabric::connection& result) mutable {
                     if (result.self)
                       done(find_published(name));
                     else if (result.peer)
                       ask_peer(result.peer, std::move(name), deadline, std::move(done));
                     else
                       done(make_error(transport_error::cannot_connect, result.error));
                   });
}

void transport::core::ask_peer(const wire::peer_connection_ptr& peer, std::string name,
                               wire::clock::time_point deadline, on_resolved done) {
  const auto id = next_resolve_++;
  wire::outgoing_frame frame{frame_kind::resolve};
  frame.header.message_id = id;
  frame.head.insert(frame.head.end(), name.begin(), name.end());
  frame.refusable = true;
  if (fabric_->submit(peer, std::move(frame)) != wire::submission::accepted) {
    done(make_error(transport_error::cannot_connect, "the peer is dead or its window is full"));
    return;
  }
  resolves_.emplace(id, waiting_resolve{peer, std::move(name), deadline, std::move(done)});
}

void transport::core::on_resolve(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                                 const std::string& name) {
  const auto found = find_published(name);
  wire::outgoing_frame frame{frame_kind::resolved};
  frame.header.source = found ? (*found)->id() : 0;
  frame.header.message_id = header.message_id;
  fabric_->submit(peer, std::move(frame));
}

void transport::core::on_resolved_frame(const wire::peer_connection_ptr& peer,
                                        const wire::frame_header& header) {
  const auto i = resolves_.find(header.message_id);
  if (i == resolves_.end() || i->second.peer != peer)
    return;
  const auto waiting = std::move(i->second);
  resolves_.erase(i);
  if (header.source == 0)
    waiting.done(make_error(transport_error::no_such_service, waiting.name));
  else if (auto result = proxy_for(node_of(peer), header.source))
    waiting.done(std::move(result));
  else
    waiting.done(make_error(transport_error::cannot_connect, "the peer has just died"));
}

void transport::core::fail_resolves(const std::function<bool(const waiting_resolve&)>& which,
                                    const std::string& why) {
  std::vector<on_resolved> failed;
  std::erase_if(resolves_, [&](auto& entry) {
    if (!which(entry.second))
      return false;
    failed.push_back(std::move(entry.second.done));
    return true;
  });
  for (const auto& done : failed)
    done(make_error(transport_error::cannot_connect, why));
}

} // namespace troupe
