// The life of the CAF half, and its messages. Names and ends of actors: transport_core_names.cpp,
// transport_core_ends.cpp.

#include "actors/transport/caf/transport_core.hpp"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>

#include <caf/actor_registry.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include "actors/transport/caf/arrived_message.hpp"
#include "actors/transport/fabric/repairs_switch.hpp"
#include "actors/transport/fabric/ucx_fabric.hpp"
#include "actors/transport/wire/wire_context.hpp"
#include "actors/transport/wire/wire_deserializer.hpp"

namespace troupe {

namespace {

using wire::frame_kind;

/// For log lines.
std::string name_of(const wire::introduction& peer) {
  return peer.endpoint.empty() ? "a peer that does not listen" : peer.endpoint;
}

void answer_with_error(const caf::strong_actor_ptr& requester, caf::message_id response, caf::error reason) {
  if (requester)
    requester->enqueue(nullptr, response, caf::make_message(std::move(reason)), nullptr);
}

void log_to_stderr(const char* event, const std::string& text) {
  std::fprintf(stderr, "transport: %s: %s\n", event, text.c_str());
}

/// The types of a message, as a log can show them. What lies before them has been read once already.
std::string kinds_in(wire_context& context, std::span<const std::byte> metadata, bool foreign) {
  wire_deserializer source{&context, metadata};
  caf::node_id node;
  std::vector<caf::strong_actor_ptr> stages;
  std::uint16_t number = 0;
  std::string types;
  if ((foreign && source(node)) || source(stages) || source.begin_object(number, types))
    return {};
  return unknown_kinds::readable(types);
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
  result.kinds = options.kinds;
  result.role = options.role;
  result.node = node_bytes(sys);
  result.window = {options.window_bytes, options.window_messages};
  result.max_frame_bytes = options.max_message_bytes;
  result.heartbeat = options.heartbeat;
  result.silence = options.silence;
  result.handshake_deadline = options.handshake_deadline;
  result.max_guests = options.max_unauthenticated;
  result.faults = options.faults;
  result.log = options.log ? options.log : log_to_stderr;
  return result;
}

std::unique_ptr<wire::fabric> make_ucx_fabric(wire::fabric_settings settings,
                                              const transport_options& options,
                                              wire::fabric::listener& ears) {
  const auto verdict = judge_ucx(options.repairs, loaded_ucx());
  wire::let_repairs_act(verdict.act);
  if (!verdict.warning.empty())
    settings.log("ucx-unrepaired", verdict.warning);
  return std::make_unique<wire::ucx_fabric>(
      wire::ucx_fabric_settings{std::move(settings),
                                {options.net_devices, options.data_ports},
                                options.shared_memory,
                                options.polling},
      ears);
}

} // namespace

transport::core::core(caf::actor_system& sys, transport_options options)
    : system_(sys), options_(std::move(options)), proxies_(sys, *this), woken_(sys) {}

void transport::core::start() {
  auto settings = fabric_settings_for(system_, options_);
  log_ = settings.log;
  fabric_ = options_.fabric ? options_.fabric->make(std::move(settings), *this)
                            : make_ucx_fabric(std::move(settings), options_, *this);
  next_sweep_ = fabric_->now();
  fabric_->start();
}

void transport::core::stop() {
  fabric_->stop();
  fail_resolves([](const auto&) { return true; }, "this process is leaving");
  proxies_.clear();
  std::lock_guard guard{published_mutex_};
  published_.clear();
}

// -- messages ---------------------------------------------------------------------

void transport::core::ship(const wire::peer_connection_ptr& peer, caf::mailbox_element& what,
                           caf::actor_id destination) {
  const auto sender = std::move(what.sender);
  const auto mid = what.mid;
  const auto stages = std::move(what.stages);
  auto content = what.move_content_to_message();
  if (auto kind = kinds_.unreadable_in(peer->token, content, system_.types()); !kind.empty()) {
    withheld_.fetch_add(1, std::memory_order_relaxed);
    auto refusal = make_error(transport_error::unknown_kind, kind);
    if (!mid.is_response()) {
      if (mid.is_request())
        answer_with_error(sender, mid.response_id(), std::move(refusal));
      return;
    }
    content = caf::make_message(std::move(refusal)); // the peer waits for an answer
  }
  wire::outgoing_frame frame{frame_kind::message};
  frame.header.source = sender ? sender->id() : 0;
  frame.header.destination = destination;
  frame.header.message_id = mid.integer_value();
  frame.refusable = mid.is_request();
  if (options_.is_bulk && !content.empty() && options_.is_bulk(content))
    frame.header.flags |= wire::bulk_lane;
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
    pending_.add({sender, mid.response_id(), foreign, peer->token, fabric_->now()});
  switch (fabric_->submit(peer, std::move(frame))) {
  case wire::submission::accepted:
    // A peer that died in between has had its requests answered already, without this one.
    if (!waits || peer->current() == wire::peer_connection::state::up)
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

void transport::core::ship_exit(const wire::peer_connection_ptr& peer, caf::strong_actor_ptr proxy,
                                caf::mailbox_element_ptr what) {
  fabric_->post([this, peer, to = std::move(proxy),
                 held = std::make_shared<caf::mailbox_element_ptr>(std::move(what))] {
    const auto source = (*held)->content().get_as<caf::exit_msg>(0).source;
    static_cast<caf::monitorable_actor*>(to->get())->unlink_from(source);
    ship(peer, **held, to->id());
  });
}

bool transport::core::on_message(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                                 std::span<const std::byte> metadata, payload data, wire::credit due) {
  wire_context context{&system_};
  context.proxy_registry_ptr(&proxies_);
  context.arrived(std::move(data));
  wire_deserializer source{&context, metadata};
  // Fresh, not a copy of the peer's: copies share their data, and CAF reads into data that is there.
  caf::node_id foreign_node;
  std::vector<caf::strong_actor_ptr> stages;
  caf::message content;
  bool is_known = true;
  const bool foreign = (header.flags & wire::foreign_source) != 0;
  try {
    if (foreign && source(foreign_node))
      return false;
    if (source(stages))
      return false;
    if (auto err = content.load(source)) {
      if (err != caf::make_error(caf::sec::unknown_type))
        return false;
      is_known = false;
    } else if (source.remaining() != 0) {
      return false;
    }
  } catch (const std::exception&) {
    return false;
  }
  const caf::message_id mid{header.message_id};
  const auto sender_node = foreign ? foreign_node : node_of(peer);
  caf::strong_actor_ptr sender;
  if (header.source != 0)
    sender = sender_node == system_.node() ? system_.registry().get<caf::strong_actor_ptr>(header.source)
                                           : proxy_for(sender_node, header.source);
  if (!is_known) {
    on_unknown_kind(peer, header, kinds_in(context, metadata, foreign), sender);
    fabric_->handled(peer, due);
    return true;
  }
  caf::strong_actor_ptr receiver;
  if (mid.is_response())
    receiver = pending_.take(header.destination, mid);
  else
    receiver = system_.registry().get<caf::strong_actor_ptr>(header.destination);
  const bool asks_nobody = !receiver && mid.is_request();
  if (asks_nobody)
    answer_with_error(sender, mid.response_id(), caf::sec::request_receiver_down);
  caf::mailbox_element_ptr held{new arrived_message(std::move(sender), mid, std::move(stages),
                                                    std::move(content), weak_from_this(), peer, due)};
  if (receiver)
    receiver->enqueue(std::move(held), fabric_->may_keep_jobs() ? &woken_ : nullptr);
  return true;
}

void transport::core::on_unknown_kind(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                                      const std::string& kinds, const caf::strong_actor_ptr& sender) {
  unknown_.fetch_add(1, std::memory_order_relaxed);
  if (unknown_kinds_.is_news(kinds))
    log_("unknown-message", "from " + name_of(peer->peer) + ": this version does not know " + kinds
                                + "; such messages are counted and dropped");
  const caf::message_id mid{header.message_id};
  auto refusal = make_error(transport_error::unknown_kind, kinds);
  if (mid.is_response())
    answer_with_error(pending_.take(header.destination, mid), mid, std::move(refusal));
  else if (mid.is_request())
    answer_with_error(sender, mid.response_id(), std::move(refusal));
}

void transport::core::compare_versions(const wire::peer_connection_ptr& peer) {
  const auto& other = peer->peer;
  auto unreadable = unreadable_kinds(options_.kinds, other.kinds);
  if (other.versions == wire::protocol_versions() && unreadable.empty())
    return;
  auto text = name_of(other) + " speaks " + to_string(other.versions) + " of the protocol, this process "
              + to_string(wire::protocol_versions());
  for (const auto& kind : unreadable)
    text += (kind == *unreadable.begin() ? "; not sent to it: " : ", ") + kind;
  log_("peer-of-other-version", text);
  kinds_.add(peer->token, std::move(unreadable));
}

// -- the fabric -------------------------------------------------------------------

bool transport::core::frame_arrived(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                                    std::span<const std::byte> metadata, payload data, wire::credit due) {
  if (header.kind == frame_kind::message)
    return on_message(peer, header, metadata, std::move(data), due);
  const bool makes_sense = on_control(peer, header, metadata);
  fabric_->handled(peer, due);
  return makes_sense;
}

bool transport::core::on_control(const wire::peer_connection_ptr& peer, const wire::frame_header& header,
                                 std::span<const std::byte> metadata) {
  switch (header.kind) {
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
  case frame_kind::message:
  case frame_kind::acknowledge:
  case frame_kind::partial_sum_request:
  case frame_kind::partial_sum_reply:
  case frame_kind::piece:
    return false;
  }
  return false;
}

void transport::core::peer_up(const wire::peer_connection_ptr& peer) {
  caf::node_id node;
  caf::binary_deserializer source{system_, peer->peer.node.data(), peer->peer.node.size()};
  if (source(node) || !node) {
    fabric_->drop(peer, "its node id makes no sense");
    return;
  }
  compare_versions(peer);
  std::lock_guard guard{nodes_mutex_};
  by_node_[node] = peer;
  nodes_[peer->token] = std::move(node);
}

void transport::core::peer_down(const wire::peer_connection_ptr& peer, const std::string& reason) {
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
  kinds_.remove(peer->token);
  for (auto& request : pending_.take_all(peer->token))
    answer_with_error(request.requester, request.response, caf::exit_reason::remote_link_unreachable);
  if (node)
    proxies_.erase(node);
  fail_resolves([&](const auto& x) { return x.peer == peer; }, "the peer died: " + reason);
}

void transport::core::tick(wire::clock::time_point now) {
  fail_resolves([now](const auto& x) { return now >= x.deadline; },
                "no answer to a resolve within the deadline");
  if (now >= next_sweep_) {
    next_sweep_ = now + options_.max_request_age / 10;
    for (auto& request : pending_.take_before(now - options_.max_request_age))
      answer_with_error(request.requester, request.response, caf::sec::request_timeout);
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

caf::node_id transport::core::node_of(const wire::peer_connection_ptr& peer) const {
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
