// Peers of the UCX fabric: the handshake, the sockets that stay open, and the end. All on the progress
// thread.

#include <algorithm>
#include <array>

#include <sys/socket.h>

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

namespace {

// What a socket may hold back before the peer counts as stuck; a heartbeat has 44 bytes.
constexpr std::size_t max_unsent = std::size_t{64} << 10;

/// Under the worker mutex: what has not been delivered, or not been sent.
void forget_traffic(ucx_peer& peer) {
  for (auto& lane : peer.lanes)
    lane.waiting.clear();
  peer.bulk.incoming.reset();
  peer.bulk.outgoing.clear();
}

} // namespace

// -- coming ---------------------------------------------------------------------

introduction ucx_fabric::introduce() {
  std::uint64_t token = 0;
  // 0 is no token.
  while (token == 0)
    fill_random(std::as_writable_bytes(std::span{&token, 1}));
  // Frames may arrive under this token before the handshake's last message has been read.
  auto peer = std::make_shared<ucx_peer>(token, settings_.window, signals_);
  std::lock_guard guard{worker_mutex_};
  if (settings_.shared_memory)
    peer->lane = workers_->open_lane();
  auto local_address = peer->lane ? peer->lane->worker->address() : std::string{};
  by_token_.emplace(token, std::move(peer));
  auto result = meeting_.introduce(token);
  result.worker_address = workers_->network().address();
  result.shared_memory_address = std::move(local_address);
  return result;
}

void ucx_fabric::forget_token(std::uint64_t token) {
  std::lock_guard guard{worker_mutex_};
  const auto i = by_token_.find(token);
  if (i == by_token_.end())
    return;
  i->second->become(peer_connection::state::dead);
  forget_traffic(*i->second);
  workers_->keep_lane(std::move(i->second->lane));
  by_token_.erase(i);
}

std::optional<std::pair<refusal, std::string>> ucx_fabric::admit(const introduction& guest) {
  if (stop_)
    return std::pair{refusal::closing, std::string{"the peer is leaving"}};
  return meeting_.admit(guest);
}

void ucx_fabric::met(acquaintance who) {
  if (!meeting_.keeps(who.peer, who.dialled)) {
    forget_token(who.token);
    return;
  }
  ucx_peer_ptr peer;
  bool connected = false;
  {
    std::lock_guard guard{worker_mutex_};
    peer = by_token_.at(who.token);
    peer->meet(std::move(who.peer));
    peer->dialled = who.dialled;
    peer->socket = std::move(who.socket);
    peer->reader = std::move(who.reader);
    peer->unsent = std::move(who.unsent);
    connected = workers_->connect(*peer);
    if (connected)
      peer->become(peer_connection::state::up);
    signals_.pieces_moved = true; // pieces may have come by now
    if (!peer->failure.empty())   // a frame that came before the handshake's end was refused
      signals_.broken = true;
  }
  if (!connected) {
    forget_token(peer->token);
    log("peer-refused", "UCX cannot reach the worker address of " + peer->peer.endpoint);
    meeting_.settle(who.dialled, {nullptr, false, "UCX cannot reach the worker address of the peer"});
    return;
  }
  peer->watch = events_.watch(peer->socket.get(), !peer->unsent.empty(), [this, peer] { on_socket(peer); });
  {
    std::lock_guard guard{peers_mutex_};
    meeting_.add(peer, clock::now());
  }
  ears_.peer_up(peer);
  {
    std::lock_guard guard{worker_mutex_};
    collect(*peer);
  }
  // Heartbeats that came with the handshake's last bytes.
  on_records(peer);
  meeting_.settle(peer);
}

void ucx_fabric::missed(const std::string& endpoint, const std::string& error, std::optional<refusal> reason,
                        const std::string& node) {
  meeting_.missed(endpoint, error, reason, node, clock::now());
}

void ucx_fabric::connect(std::string endpoint, clock::time_point deadline, on_connected done) {
  post([this, name = std::move(endpoint), deadline, done = std::move(done)]() mutable {
    meeting_.connect(name, deadline, std::move(done));
  });
}

void ucx_fabric::dial(const std::string& endpoint) {
  rendezvous_->dial(endpoint);
}

void ucx_fabric::stop_dialling(const std::string& endpoint) {
  rendezvous_->cancel(endpoint);
}

bool ucx_fabric::has_closed(const peer_connection_ptr& peer) const {
  std::byte one{};
  return ::recv(static_cast<const ucx_peer&>(*peer).socket.get(), &one, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

// -- staying --------------------------------------------------------------------

void ucx_fabric::on_socket(const ucx_peer_ptr& peer) {
  std::array<std::byte, 4096> buffer;
  bool closed = false;
  const auto num_bytes = read_some(peer->socket, buffer, closed);
  if (closed) {
    fail(peer, "the connection closed");
    return;
  }
  if (num_bytes > 0) {
    peer->last_heard = clock::now();
    peer->reader.feed(std::span{buffer}.first(num_bytes));
    on_records(peer);
  }
  if (!peer->unsent.empty() && peer->current() == peer_connection::state::up)
    flush_socket(peer);
}

void ucx_fabric::on_records(const ucx_peer_ptr& peer) {
  while (const auto rec = peer->reader.next()) {
    byte_parser body{rec->body};
    bool makes_sense = rec->type == record_type::heartbeat;
    for (auto& lane : peer->lanes) {
      const auto frames = body.take64();
      const auto bytes = body.take64();
      makes_sense = makes_sense && lane.window.acknowledge(frames, bytes);
    }
    if (!makes_sense || body.failed()) {
      fail(peer, "malformed heartbeat");
      return;
    }
  }
  if (!peer->reader.error().empty())
    fail(peer, "malformed record: " + peer->reader.error());
}

void ucx_fabric::send_heartbeat(const peer_connection_ptr& to) {
  const auto peer = std::static_pointer_cast<ucx_peer>(to);
  byte_writer body;
  for (const auto& lane : peer->lanes) {
    const auto handled = lane.taken.handled();
    body.put64(handled.frames);
    body.put64(handled.bytes);
  }
  const auto encoded = encode_record(record_type::heartbeat, body.bytes());
  peer->unsent.insert(peer->unsent.end(), encoded.begin(), encoded.end());
  flush_socket(peer);
}

void ucx_fabric::flush_socket(const ucx_peer_ptr& peer) {
  bool closed = false;
  const auto num_bytes = write_some(peer->socket, peer->unsent, closed);
  peer->unsent.erase(peer->unsent.begin(), peer->unsent.begin() + static_cast<std::ptrdiff_t>(num_bytes));
  if (closed)
    fail(peer, "the connection closed");
  else if (peer->unsent.size() > max_unsent)
    fail(peer, "the peer does not read its socket");
  else
    events_.change(peer->watch, !peer->unsent.empty());
}

// -- going ----------------------------------------------------------------------

void ucx_fabric::drop(const peer_connection_ptr& peer, std::string reason) {
  post([this, peer, why = std::move(reason)] { fail(peer, why); });
}

void ucx_fabric::fail(const peer_connection_ptr& which, const std::string& reason) {
  const auto peer = std::static_pointer_cast<ucx_peer>(which);
  if (peer->current() == peer_connection::state::dead)
    return;
  // Answers that have arrived before the connection ended are delivered.
  {
    std::lock_guard guard{worker_mutex_};
    for (int i = 0; i < 16 && peer->failure.empty() && workers_->progress() > 0; ++i)
      collect(*peer);
  }
  deliver();
  // The progress thread cannot run jobs in the middle of a failure.
  ears_.hand_over_jobs();
  if (peer->current() == peer_connection::state::dead)
    return;
  {
    std::lock_guard guard{worker_mutex_};
    peer->become(peer_connection::state::dead);
    by_token_.erase(peer->token);
    if (peer->endpoint != nullptr)
      peer->carrier->close(std::exchange(peer->endpoint, nullptr));
    workers_->close_lane(std::move(peer->lane));
    // Slots whose data UCX is still fetching hold themselves, and their buffers, until UCX lets go.
    forget_traffic(*peer);
  }
  events_.forget(peer->watch);
  {
    std::lock_guard guard{peers_mutex_};
    meeting_.remove(peer);
  }
  peer->socket = descriptor{}; // last: level() reads the sockets of the peers in meeting_
  ++totals_.peers_lost;
  log("peer-down",
      (peer->peer.endpoint.empty() ? "a peer that does not listen" : peer->peer.endpoint) + ": " + reason);
  ears_.peer_down(peer, reason);
}

void ucx_fabric::log(const char* event, const std::string& text) {
  if (settings_.log)
    settings_.log(event, text);
}

} // namespace troupe::wire
