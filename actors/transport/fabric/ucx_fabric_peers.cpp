// The fabric's peers: how they come, how they stay, how they go. All on the progress thread.

#include <algorithm>
#include <array>

#include <sys/socket.h>

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// After "I am connecting to you myself": long enough for that to happen, short against any deadline.
constexpr auto retry_pause = 50ms;

// What a socket may hold back before the peer counts as stuck; a heartbeat has 44 bytes.
constexpr std::size_t max_unsent = std::size_t{64} << 10;

/// Under the worker mutex: what has not been delivered, or not been sent.
void forget_traffic(ucx_peer& peer) {
  for (auto& lane : peer.lanes)
    lane.waiting.clear();
  peer.bulk.incoming.reset();
  peer.bulk.outgoing.clear();
}

bool has_closed(const descriptor& socket) {
  std::byte one{};
  return ::recv(socket.get(), &one, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

} // namespace

// -- coming ---------------------------------------------------------------------

introduction ucx_fabric::introduce() {
  std::uint64_t token = 0;
  // Never 0, which no frame of a connected peer carries.
  while (token == 0)
    fill_random(std::as_writable_bytes(std::span{&token, 1}));
  // Frames may arrive under this token before the handshake's last message has been read.
  auto peer = std::make_shared<ucx_peer>(token, settings_.window, signals_);
  std::lock_guard guard{worker_mutex_};
  if (settings_.shared_memory)
    peer->lane = open_lane();
  auto local_address = peer->lane ? peer->lane->worker->address() : std::string{};
  by_token_.emplace(token, std::move(peer));
  return {settings_.node,         settings_.fingerprint,   endpoint_,          token,
          settings_.window.bytes, settings_.window.frames, worker_->address(), std::move(local_address),
          protocol_versions(),    settings_.kinds,         settings_.role};
}

void ucx_fabric::forget_token(std::uint64_t token) {
  std::lock_guard guard{worker_mutex_};
  const auto i = by_token_.find(token);
  if (i == by_token_.end())
    return;
  i->second->become(peer_connection::state::dead);
  forget_traffic(*i->second);
  keep_lane(std::move(i->second->lane));
  by_token_.erase(i);
}

std::optional<std::pair<refusal, std::string>> ucx_fabric::admit(const introduction& guest) {
  if (stop_)
    return std::pair{refusal::closing, std::string{"the peer is leaving"}};
  if (guest.node == settings_.node)
    return std::pair{refusal::self, std::string{"this is the same process"}};
  // Two that dial each other keep the connection of the one with the lower node.
  const bool ours_wins = settings_.node < guest.node;
  if (const auto known = find_node(guest.node)) {
    if (ours_wins && !known->dialled.empty() && !has_closed(known->socket))
      return std::pair{refusal::connected, std::string{"already connected"}};
    // The peer has given up the old connection, and we have not noticed yet.
    fail(known, "superseded by a new connection of the same peer");
  }
  if (!guest.endpoint.empty() && attempts_.contains(guest.endpoint)) {
    if (ours_wins && attempts_[guest.endpoint].dialling)
      return std::pair{refusal::connected, std::string{"connecting the other way"}};
    meetings_->cancel(guest.endpoint);
    attempts_[guest.endpoint].dialling = false;
  }
  return std::nullopt;
}

void ucx_fabric::met(acquaintance who) {
  if (const auto known = find_node(who.peer.node)) {
    // Both dialled, under names that did not show it.
    const bool ours_wins = settings_.node < who.peer.node;
    if (!who.dialled.empty() && !ours_wins) {
      forget_token(who.token);
      settle(who.dialled, {known, false, {}});
      return;
    }
    fail(known, "superseded by the connection that takes precedence");
  }
  ucx_peer_ptr peer;
  bool connected = false;
  {
    std::lock_guard guard{worker_mutex_};
    peer = by_token_.at(who.token);
    peer->peer = std::move(who.peer);
    peer->dialled = who.dialled;
    for (auto& lane : peer->lanes) {
      lane.window.limit({peer->peer.window_bytes, peer->peer.window_frames});
      lane.taken.limit({peer->peer.window_bytes, peer->peer.window_frames});
    }
    peer->socket = std::move(who.socket);
    peer->reader = std::move(who.reader);
    peer->unsent = std::move(who.unsent);
    peer->last_heard = clock::now();
    connect_worker(*peer);
    connected = peer->endpoint != nullptr;
    if (connected)
      peer->become(peer_connection::state::up);
    signals_.pieces_moved = true; // pieces may have come by now
    if (!peer->failure.empty())   // a frame that came before the handshake's end was refused
      signals_.broken = true;
  }
  const auto advertised = peer->peer.endpoint;
  if (!connected) {
    forget_token(peer->token);
    log("peer-refused", "UCX cannot reach the worker address of " + advertised);
    if (!who.dialled.empty())
      settle(who.dialled, {nullptr, false, "UCX cannot reach the worker address of the peer"});
    return;
  }
  peer->watch = events_.watch(peer->socket.get(), !peer->unsent.empty(), [this, peer] { on_socket(peer); });
  {
    std::lock_guard guard{peers_mutex_};
    peers_.push_back(peer);
  }
  ears_.peer_up(peer);
  {
    std::lock_guard guard{worker_mutex_};
    collect(*peer);
  }
  // Heartbeats that came with the handshake's last bytes.
  on_records(peer);
  if (!who.dialled.empty())
    settle(who.dialled, {peer, false, {}});
  if (!advertised.empty())
    settle(advertised, {peer, false, {}});
}

void ucx_fabric::missed(const std::string& endpoint, const std::string& error, std::optional<refusal> reason,
                        const std::string& node) {
  const auto i = attempts_.find(endpoint);
  if (i == attempts_.end())
    return;
  i->second.dialling = false;
  if (reason == refusal::self) {
    settle(endpoint, {nullptr, true, {}});
  } else if (reason == refusal::connected) {
    if (const auto known = find_node(node))
      settle(endpoint, {known, false, {}});
    else
      i->second.retry_at = clock::now() + retry_pause;
  } else {
    settle(endpoint, {nullptr, false, "cannot connect to " + endpoint + ": " + error});
  }
}

void ucx_fabric::connect(std::string endpoint, clock::time_point deadline, on_connected done) {
  post([this, name = std::move(endpoint), deadline, done = std::move(done)]() mutable {
    if (!endpoint_.empty() && name == endpoint_) {
      done({nullptr, true, {}});
      return;
    }
    if (const auto known = find_endpoint(name)) {
      done({known, false, {}});
      return;
    }
    auto& waiting = attempts_[name];
    waiting.waiters.push_back({deadline, std::move(done)});
    start_dialling(name);
  });
}

void ucx_fabric::start_dialling(const std::string& endpoint) {
  auto& waiting = attempts_[endpoint];
  if (waiting.dialling)
    return;
  waiting.dialling = true;
  try {
    meetings_->dial(endpoint);
  } catch (const std::exception& e) {
    settle(endpoint, {nullptr, false, e.what()});
  }
}

void ucx_fabric::tick_attempts(clock::time_point now) {
  std::vector<on_connected> late;
  std::vector<std::string> again;
  for (auto i = attempts_.begin(); i != attempts_.end();) {
    auto& waiters = i->second.waiters;
    for (auto& w : waiters)
      if (now >= w.deadline)
        late.push_back(std::move(w.done));
    std::erase_if(waiters, [now](const auto& w) { return now >= w.deadline; });
    if (waiters.empty()) {
      meetings_->cancel(i->first);
      i = attempts_.erase(i);
      continue;
    }
    if (!i->second.dialling && now >= i->second.retry_at)
      again.push_back(i->first);
    ++i;
  }
  for (const auto& done : late)
    done({nullptr, false, "no connection within the deadline"});
  for (const auto& endpoint : again)
    if (attempts_.contains(endpoint))
      start_dialling(endpoint);
}

void ucx_fabric::settle(const std::string& endpoint, const connection& result) {
  const auto i = attempts_.find(endpoint);
  if (i == attempts_.end())
    return;
  const auto waiting = std::move(i->second);
  attempts_.erase(i);
  if (waiting.dialling)
    meetings_->cancel(endpoint);
  for (const auto& w : waiting.waiters)
    w.done(result);
}

ucx_peer_ptr ucx_fabric::find_node(const std::string& node) const {
  const auto i =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& p) { return p->peer.node == node; });
  return i == peers_.end() ? nullptr : *i;
}

ucx_peer_ptr ucx_fabric::find_endpoint(const std::string& endpoint) const {
  const auto i = std::find_if(peers_.begin(), peers_.end(), [&](const auto& p) {
    return p->dialled == endpoint || p->peer.endpoint == endpoint;
  });
  return i == peers_.end() ? nullptr : *i;
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

void ucx_fabric::send_heartbeats() {
  const auto peers = peers_;
  for (const auto& peer : peers) {
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
  post([this, whom = std::static_pointer_cast<ucx_peer>(peer), why = std::move(reason)] { fail(whom, why); });
}

void ucx_fabric::fail(const ucx_peer_ptr& peer, const std::string& reason) {
  if (peer->current() == peer_connection::state::dead)
    return;
  // An answer sent just before its sender went is still an answer.
  {
    std::lock_guard guard{worker_mutex_};
    for (int i = 0; i < 16 && peer->failure.empty() && progress_workers() > 0; ++i)
      collect(*peer);
  }
  deliver();
  // This is no place to run jobs: the progress thread is in the middle of something.
  ears_.hand_over_jobs();
  if (peer->current() == peer_connection::state::dead)
    return;
  {
    std::lock_guard guard{worker_mutex_};
    peer->become(peer_connection::state::dead);
    by_token_.erase(peer->token);
    if (peer->endpoint != nullptr)
      peer->carrier->close(std::exchange(peer->endpoint, nullptr));
    close_lane(std::move(peer->lane));
    // Slots whose data UCX is still fetching hold themselves, and their buffers, until UCX lets go.
    forget_traffic(*peer);
  }
  events_.forget(peer->watch);
  {
    std::lock_guard guard{peers_mutex_};
    std::erase(peers_, peer);
  }
  peer->socket = descriptor{}; // behind that: level() looks at the sockets of those that are listed
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
