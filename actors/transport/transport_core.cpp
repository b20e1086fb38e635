#include "actors/transport/transport_core.hpp"

#include <cstdio>
#include <utility>

#include <caf/actor_registry.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include "actors/transport/proxy.hpp"
#include "actors/transport/wire_context.hpp"

namespace troupe {

namespace {

using wire::frame_kind;

std::vector<char> new_head() {
  std::vector<char> head;
  // Header, type names and a small message: one allocation.
  head.reserve(512);
  head.resize(wire::frame_header_bytes);
  return head;
}

caf::span<const caf::byte> as_caf_span(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const caf::byte*>(bytes.data()), bytes.size()};
}

void answer_with_error(const caf::strong_actor_ptr& requester, caf::message_id response, caf::error reason) {
  if (requester)
    requester->enqueue(nullptr, response, caf::make_message(std::move(reason)), nullptr);
}

void log_to_stderr(const char* event, const std::string& text) {
  std::fprintf(stderr, "transport: %s: %s\n", event, text.c_str());
}

std::string node_bytes(caf::actor_system& sys) {
  if (!sys.node())
    throw std::runtime_error("transport: the actor system has no node id: call configure_transport first");
  std::vector<char> bytes;
  caf::binary_serializer sink{sys, bytes};
  auto node = sys.node();
  if (auto err = sink(node))
    throw std::runtime_error("transport: cannot write down the node id: " + caf::to_string(err));
  return {bytes.data(), bytes.size()};
}

wire::fabric_settings fabric_settings_for(caf::actor_system& sys, const transport_options& options) {
  wire::fabric_settings result;
  result.listen = options.listen;
  result.advertise = options.advertise;
  result.secret = options.secret;
  result.fingerprint = options.fingerprint;
  result.node = node_bytes(sys);
  result.ucx = {options.net_devices, options.data_ports, options.shared_memory};
  result.window = {options.window_bytes, options.window_messages};
  result.max_frame_bytes = options.max_message_bytes;
  result.heartbeat = options.heartbeat;
  result.silence = options.silence;
  result.handshake_deadline = options.handshake_deadline;
  result.max_guests = options.max_unauthenticated;
  result.spin = options.spin;
  result.faults = options.faults;
  result.log = options.log ? options.log : log_to_stderr;
  return result;
}

} // namespace

transport::core::core(caf::actor_system& sys, transport_options options)
    : system_(sys), options_(std::move(options)), proxies_(sys, *this), next_sweep_(wire::clock::now()) {}

void transport::core::start() {
  fabric_ = std::make_unique<wire::fabric>(fabric_settings_for(system_, options_), *this);
}

void transport::core::stop() {
  fabric_->stop();
  for (auto& [id, waiting] : std::exchange(resolves_, {}))
    waiting.done(make_error(transport_error::cannot_connect, "this process is leaving"));
  proxies_.clear();
  std::lock_guard guard{published_mutex_};
  published_.clear();
}

// -- names ------------------------------------------------------------------------

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
  fabric_->connect(endpoint, deadline,
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

void transport::core::ask_peer(const wire::link_ptr& peer, std::string name, wire::clock::time_point deadline,
                               on_resolved done) {
  const auto id = next_resolve_++;
  wire::outgoing_frame frame;
  frame.header.kind = frame_kind::resolve;
  frame.header.message_id = id;
  frame.head = new_head();
  frame.head.insert(frame.head.end(), name.begin(), name.end());
  frame.refusable = true;
  if (fabric_->submit(peer, std::move(frame)) != wire::submission::accepted) {
    done(make_error(transport_error::cannot_connect, "the peer is dead or its window is full"));
    return;
  }
  resolves_.emplace(id, waiting_resolve{peer, std::move(name), deadline, std::move(done)});
}

void transport::core::on_resolve(const wire::link_ptr& peer, const wire::frame_header& header,
                                 const std::string& name) {
  const auto found = find_published(name);
  wire::outgoing_frame frame;
  frame.header.kind = frame_kind::resolved;
  frame.header.source = found ? (*found)->id() : 0;
  frame.header.message_id = header.message_id;
  frame.head = new_head();
  fabric_->submit(peer, std::move(frame));
}

void transport::core::on_resolved_frame(const wire::link_ptr& peer, const wire::frame_header& header) {
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

// -- messages ---------------------------------------------------------------------

void transport::core::ship(const wire::link_ptr& peer, caf::mailbox_element& what,
                           caf::actor_id destination) {
  const auto sender = std::move(what.sender);
  const auto mid = what.mid;
  const auto stages = std::move(what.stages);
  auto content = what.move_content_to_message();
  wire::outgoing_frame frame;
  frame.header.kind = frame_kind::message;
  frame.header.source = sender ? sender->id() : 0;
  frame.header.destination = destination;
  frame.header.message_id = mid.integer_value();
  frame.head = new_head();
  frame.refusable = mid.is_request();
  const bool foreign = sender && sender->node() != system_.node();
  wire_context context{&system_};
  context.proxy_registry_ptr(&proxies_);
  caf::binary_serializer sink{&context, frame.head};
  caf::error err;
  if (foreign) {
    frame.header.flags |= wire::foreign_source;
    auto node = sender->node();
    err = sink(node);
  } else if (sender) {
    export_actor(sender);
  }
  // `save` and `load` are called by name: given a whole message, CAF's processors drop the errors inside it.
  if (!err)
    err = sink(const_cast<std::vector<caf::strong_actor_ptr>&>(stages));
  if (!err)
    err = content.save(sink);
  if (err) {
    if (mid.is_request())
      answer_with_error(sender, mid.response_id(), std::move(err));
    return;
  }
  frame.parts = std::move(context.attached());
  const bool waits = mid.is_request() && sender;
  if (waits)
    pending_.add({sender, mid.response_id(), foreign, peer->token, wire::clock::now()});
  switch (fabric_->submit(peer, std::move(frame))) {
  case wire::submission::accepted:
    // A peer that died in between has had its requests answered already, without this one.
    if (!waits || peer->current() == wire::link::state::up)
      return;
    err = caf::exit_reason::remote_link_unreachable;
    break;
  case wire::submission::window_full:
    err = make_error(transport_error::window_full);
    break;
  case wire::submission::too_large:
    err = make_error(transport_error::message_too_large);
    break;
  case wire::submission::dead:
    err = caf::exit_reason::remote_link_unreachable;
    break;
  }
  if (waits && pending_.remove(sender, mid.response_id()))
    answer_with_error(sender, mid.response_id(), std::move(err));
}

void transport::core::ship_exit(const wire::link_ptr& peer, caf::strong_actor_ptr proxy,
                                caf::mailbox_element_ptr what) {
  fabric_->post([this, peer, to = std::move(proxy),
                 held = std::make_shared<caf::mailbox_element_ptr>(std::move(what))] {
    const auto source = (*held)->content().get_as<caf::exit_msg>(0).source;
    static_cast<caf::monitorable_actor*>(to->get())->unlink_from(source);
    ship(peer, **held, to->id());
  });
}

bool transport::core::on_message(const wire::link_ptr& peer, const wire::frame_header& header,
                                 std::span<const std::byte> metadata, payload data) {
  wire_context context{&system_};
  context.proxy_registry_ptr(&proxies_);
  context.arrived(std::move(data));
  caf::binary_deserializer source{&context, as_caf_span(metadata)};
  // Fresh, not a copy of the peer's: copies share their data, and CAF reads into data that is there.
  caf::node_id foreign_node;
  std::vector<caf::strong_actor_ptr> stages;
  caf::message content;
  const bool foreign = (header.flags & wire::foreign_source) != 0;
  try {
    if (foreign && source(foreign_node))
      return false;
    if (source(stages) || content.load(source) || source.remaining() != 0)
      return false;
  } catch (const std::exception&) {
    return false;
  }
  const caf::message_id mid{header.message_id};
  const auto sender_node = foreign ? foreign_node : node_of(peer);
  caf::strong_actor_ptr sender;
  if (header.source != 0)
    sender = sender_node == system_.node() ? system_.registry().get<caf::strong_actor_ptr>(header.source)
                                           : proxy_for(sender_node, header.source);
  caf::strong_actor_ptr receiver;
  if (mid.is_response())
    receiver = pending_.take(header.destination, mid);
  else
    receiver = system_.registry().get<caf::strong_actor_ptr>(header.destination);
  if (receiver)
    receiver->enqueue(
        caf::make_mailbox_element(std::move(sender), mid, std::move(stages), std::move(content)), nullptr);
  else if (mid.is_request())
    answer_with_error(sender, mid.response_id(), caf::sec::request_receiver_down);
  return true;
}

// -- the end of actors ------------------------------------------------------------

caf::strong_actor_ptr transport::core::make_proxy(caf::node_id node, caf::actor_id id) {
  wire::link_ptr peer;
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
  wire::outgoing_frame frame;
  frame.header.kind = frame_kind::monitor;
  frame.header.destination = id;
  frame.head = new_head();
  fabric_->submit(peer, std::move(frame));
  return result;
}

void transport::core::on_monitor(const wire::link_ptr& peer, caf::actor_id id) {
  const auto whom = system_.registry().get<caf::strong_actor_ptr>(id);
  if (!whom) {
    send_down(peer, id, caf::exit_reason::unknown);
    return;
  }
  {
    std::lock_guard guard{watchers_mutex_};
    auto& watchers = watchers_[id];
    const bool watched = !watchers.empty();
    std::erase_if(watchers, [](const auto& x) { return x->current() == wire::link::state::dead; });
    watchers.push_back(peer);
    if (watched)
      return;
  }
  whom->get()->attach_functor([weak = weak_from_this(), id](const caf::error& reason) {
    if (const auto self = weak.lock())
      self->local_actor_ended(id, reason);
  });
}

void transport::core::local_actor_ended(caf::actor_id id, const caf::error& reason) {
  std::vector<wire::link_ptr> watchers;
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

void transport::core::send_down(const wire::link_ptr& peer, caf::actor_id id, const caf::error& reason) {
  wire::outgoing_frame frame;
  frame.header.kind = frame_kind::down;
  frame.header.source = id;
  frame.head = new_head();
  caf::binary_serializer sink{system_, frame.head};
  auto copy = reason;
  if (sink(copy)) {
    frame.head.resize(wire::frame_header_bytes);
    copy = caf::exit_reason::unknown;
    [[maybe_unused]] const auto err = sink(copy);
  }
  fabric_->submit(peer, std::move(frame));
}

bool transport::core::on_down(const wire::link_ptr& peer, const wire::frame_header& header,
                              std::span<const std::byte> metadata) {
  caf::error reason;
  caf::binary_deserializer source{system_, as_caf_span(metadata)};
  try {
    if (source(reason))
      return false;
  } catch (const std::exception&) {
    return false;
  }
  proxies_.erase(node_of(peer), header.source, std::move(reason));
  return true;
}

void transport::core::tell_link(const wire::link_ptr& peer, frame_kind kind,
                                const caf::strong_actor_ptr& local, caf::actor_id remote) {
  // The caller holds the locks of both actors, and exporting takes one of them.
  fabric_->post([this, peer, kind, local, remote] {
    export_actor(local);
    wire::outgoing_frame frame;
    frame.header.kind = kind;
    frame.header.source = local->id();
    frame.header.destination = remote;
    frame.head = new_head();
    fabric_->submit(peer, std::move(frame));
  });
}

void transport::core::on_link(const wire::link_ptr& peer, const wire::frame_header& header) {
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

// -- the fabric -------------------------------------------------------------------

bool transport::core::frame_arrived(const wire::link_ptr& peer, const wire::frame_header& header,
                                    std::span<const std::byte> metadata, payload data) {
  switch (header.kind) {
  case frame_kind::message:
    return on_message(peer, header, metadata, std::move(data));
  case frame_kind::resolve:
    on_resolve(peer, header, {reinterpret_cast<const char*>(metadata.data()), metadata.size()});
    return true;
  case frame_kind::resolved:
    on_resolved_frame(peer, header);
    return true;
  case frame_kind::monitor:
    on_monitor(peer, header.destination);
    return true;
  case frame_kind::down:
    return on_down(peer, header, metadata);
  case frame_kind::link:
  case frame_kind::unlink:
    on_link(peer, header);
    return true;
  case frame_kind::acknowledge:
  case frame_kind::partial_sum_request:
  case frame_kind::partial_sum_reply:
    return false;
  }
  return false;
}

void transport::core::peer_up(const wire::link_ptr& peer) {
  caf::node_id node;
  caf::binary_deserializer source{system_, peer->peer.node.data(), peer->peer.node.size()};
  if (source(node) || !node) {
    fabric_->drop(peer, "its node id makes no sense");
    return;
  }
  std::lock_guard guard{nodes_mutex_};
  by_node_[node] = peer;
  nodes_[peer->token] = std::move(node);
}

void transport::core::peer_down(const wire::link_ptr& peer, const std::string& reason) {
  caf::node_id node;
  {
    std::lock_guard guard{nodes_mutex_};
    if (const auto i = nodes_.find(peer->token); i != nodes_.end()) {
      node = std::move(i->second);
      nodes_.erase(i);
    }
    if (const auto i = by_node_.find(node); i != by_node_.end() && i->second == peer)
      by_node_.erase(i);
  }
  for (auto& request : pending_.take_all(peer->token))
    answer_with_error(request.requester, request.response, caf::exit_reason::remote_link_unreachable);
  if (node)
    proxies_.erase(node);
  std::vector<on_resolved> asked;
  std::erase_if(resolves_, [&](auto& entry) {
    if (entry.second.peer != peer)
      return false;
    asked.push_back(std::move(entry.second.done));
    return true;
  });
  for (const auto& done : asked)
    done(make_error(transport_error::cannot_connect, "the peer died: " + reason));
}

void transport::core::tick(wire::clock::time_point now) {
  std::vector<on_resolved> late;
  std::erase_if(resolves_, [&](auto& entry) {
    if (now < entry.second.deadline)
      return false;
    late.push_back(std::move(entry.second.done));
    return true;
  });
  for (const auto& done : late)
    done(make_error(transport_error::cannot_connect, "no answer to a resolve within the deadline"));
  if (now >= next_sweep_) {
    next_sweep_ = now + options_.max_request_age / 10;
    pending_.forget_before(now - options_.max_request_age);
  }
}

caf::strong_actor_ptr transport::core::proxy_for(const caf::node_id& node, caf::actor_id id) {
  {
    // The registry would keep an empty entry for every unknown node.
    std::lock_guard guard{nodes_mutex_};
    if (!by_node_.contains(node))
      return nullptr;
  }
  return proxies_.get_or_put(node, id);
}

caf::node_id transport::core::node_of(const wire::link_ptr& peer) const {
  std::lock_guard guard{nodes_mutex_};
  const auto i = nodes_.find(peer->token);
  return i == nodes_.end() ? caf::node_id{} : i->second;
}

void transport::core::export_actor(const caf::strong_actor_ptr& local) {
  // `put` locks everyone out and attaches a functor the first time; mostly the actor is there already.
  auto& registry = system_.registry();
  if (!registry.get<caf::strong_actor_ptr>(local->id()))
    registry.put(local->id(), local);
}

} // namespace troupe
