// How connections of the simulated fabric come about. Who dials whom, and which of two connections stays, is
// decided as in ucx_fabric_peers.cpp.

#include <algorithm>

#include "load/simulation/simulated_fabric.hpp"

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;
using state = wire::peer_connection::state;

// After "I am connecting to you myself".
constexpr auto retry_pause = 50ms;

constexpr size_t introduction_bytes = 400;

std::string machine_of(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.rfind(':'));
}

} // namespace

wire::introduction simulated_fabric::introduce(uint64_t token) const {
  return {settings_.node,
          settings_.fingerprint,
          endpoint_,
          token,
          settings_.window.bytes,
          settings_.window.frames,
          {},
          {},
          wire::protocol_versions(),
          settings_.kinds,
          settings_.role};
}

simulated_peer_ptr simulated_fabric::make_peer() {
  auto result = std::make_shared<simulated_peer>(network_.random().next() | 1U, settings_.window);
  result->last_heard = plans().now();
  return result;
}

void simulated_fabric::attach(const simulated_peer_ptr& peer) {
  peer->in->receiver = where_.gate;
  const std::weak_ptr<simulated_peer> whose = peer;
  peer->in->deliver = [this, whose](packet& what) {
    if (const auto alive = whose.lock())
      arrived(alive, what);
  };
  peer->in->closed = [this, whose] {
    if (const auto alive = whose.lock())
      fail(alive, "the connection closed");
  };
}

void simulated_fabric::connect(std::string endpoint, wire::clock::time_point deadline, on_connected done) {
  post([this, name = std::move(endpoint), until = deadline - where_.clock_offset, done = std::move(done)] {
    if (name == endpoint_) {
      done({nullptr, true, {}});
      return;
    }
    if (const auto known = find_endpoint(name)) {
      done({known, false, {}});
      return;
    }
    attempts_[name].waiters.push_back({until, done});
    start_dialling(name);
  });
}

void simulated_fabric::start_dialling(const std::string& endpoint) {
  auto& waiting = attempts_[endpoint];
  if (waiting.dialling)
    return;
  const auto machine = machine_of(endpoint);
  auto peer = make_peer();
  peer->dialled = endpoint;
  waiting.dialling = peer;
  waiting.gives_up = plans().now() + settings_.handshake_deadline;
  peer->out = network_.make_pipe(where_.machine, machine, nullptr);
  peer->in = network_.make_pipe(machine, where_.machine, where_.gate);
  attach(peer);
  network_.knock(
      where_.machine, machine,
      [who = introduce(peer->token), there = peer->out, back = peer->in](simulated_fabric& host) {
        host.come_in(who, there, back);
      },
      [this, gate = where_.gate, whose = std::weak_ptr{peer}] {
        gate->pass([this, whose] {
          if (const auto alive = whose.lock())
            fail(alive, "connection refused");
        });
      });
}

void simulated_fabric::come_in(wire::introduction guest, const pipe_ptr& there, const pipe_ptr& back) {
  if (there->is_closed || stopped_)
    return;
  packet answer;
  if (auto no = admit(guest)) {
    answer.what = packet::kind::refusal;
    answer.from = introduce(0);
    answer.reason = no->first;
    answer.text = no->second;
    network_.send(back, std::move(answer), introduction_bytes);
    return;
  }
  auto peer = make_peer();
  peer->peer = std::move(guest);
  peer->in = there;
  peer->out = back;
  attach(peer);
  answer.what = packet::kind::welcome;
  answer.from = introduce(peer->token);
  network_.send(back, std::move(answer), introduction_bytes);
  rise(peer);
}

std::optional<std::pair<wire::refusal, std::string>>
simulated_fabric::admit(const wire::introduction& guest) {
  if (auto mismatch = wire::fingerprint_mismatch(settings_.fingerprint, guest.fingerprint); !mismatch.empty())
    return std::pair{wire::refusal::fingerprint, std::move(mismatch)};
  const bool ours_wins = settings_.node < guest.node;
  if (const auto known = find_node(guest.node)) {
    if (ours_wins && !known->dialled.empty())
      return std::pair{wire::refusal::connected, std::string{"already connected"}};
    fail(known, "superseded by a new connection of the same peer");
  }
  if (const auto i = attempts_.find(guest.endpoint); i != attempts_.end() && i->second.dialling) {
    if (ours_wins)
      return std::pair{wire::refusal::connected, std::string{"connecting the other way"}};
    hang_up(i->second.dialling);
    i->second.dialling = nullptr;
  }
  return std::nullopt;
}

void simulated_fabric::rise(const simulated_peer_ptr& peer) {
  for (auto& lane : peer->lanes) {
    lane.window.limit({peer->peer.window_bytes, peer->peer.window_frames});
    lane.taken.limit({peer->peer.window_bytes, peer->peer.window_frames});
  }
  peer->last_heard = plans().now();
  peer->become(state::up);
  peers_.push_back(peer);
  ears_.peer_up(peer);
  const auto dialled = peer->dialled;
  if (!dialled.empty())
    settle(dialled, {peer, false, {}});
  settle(peer->peer.endpoint, {peer, false, {}});
}

void simulated_fabric::welcomed(const simulated_peer_ptr& peer, packet& word) {
  peer->peer = std::move(word.from);
  if (const auto known = find_node(peer->peer.node))
    fail(known, "superseded by the connection that takes precedence");
  rise(peer);
}

void simulated_fabric::refused(const simulated_peer_ptr& peer, packet& word) {
  const auto endpoint = peer->dialled;
  if (word.reason != wire::refusal::connected) {
    fail(peer, word.text);
    return;
  }
  hang_up(peer);
  const auto i = attempts_.find(endpoint);
  if (i == attempts_.end() || i->second.dialling != peer)
    return;
  i->second.dialling = nullptr;
  if (const auto known = find_node(word.from.node))
    settle(endpoint, {known, false, {}});
  else
    i->second.retry_at = plans().now() + retry_pause;
}

void simulated_fabric::missed(const std::string& endpoint, const std::string& error) {
  settle(endpoint, {nullptr, false, "cannot connect to " + endpoint + ": " + error});
}

void simulated_fabric::settle(const std::string& endpoint, const connection& result) {
  const auto i = attempts_.find(endpoint);
  if (i == attempts_.end())
    return;
  const auto waiting = std::move(i->second);
  attempts_.erase(i);
  if (waiting.dialling && waiting.dialling->current() == state::meeting)
    hang_up(waiting.dialling);
  for (const auto& one : waiting.waiters)
    one.done(result);
}

void simulated_fabric::tick_attempts() {
  const auto time = plans().now();
  std::vector<on_connected> late;
  std::vector<std::string> again;
  std::vector<simulated_peer_ptr> silent;
  for (auto i = attempts_.begin(); i != attempts_.end();) {
    auto& [endpoint, waiting] = *i;
    for (auto& one : waiting.waiters)
      if (time >= one.deadline)
        late.push_back(std::move(one.done));
    std::erase_if(waiting.waiters, [time](const auto& one) { return time >= one.deadline; });
    if (waiting.waiters.empty()) {
      if (waiting.dialling)
        hang_up(waiting.dialling);
      i = attempts_.erase(i);
      continue;
    }
    if (waiting.dialling && time >= waiting.gives_up)
      silent.push_back(waiting.dialling);
    else if (!waiting.dialling && time >= waiting.retry_at)
      again.push_back(endpoint);
    ++i;
  }
  for (const auto& done : late)
    done({nullptr, false, "no connection within the deadline"});
  for (const auto& peer : silent)
    fail(peer, "no answer");
  for (const auto& endpoint : again)
    if (attempts_.contains(endpoint))
      start_dialling(endpoint);
}

simulated_peer_ptr simulated_fabric::find_node(const std::string& node) const {
  const auto i =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& one) { return one->peer.node == node; });
  return i == peers_.end() ? nullptr : *i;
}

simulated_peer_ptr simulated_fabric::find_endpoint(const std::string& endpoint) const {
  const auto i = std::find_if(peers_.begin(), peers_.end(), [&](const auto& one) {
    return one->dialled == endpoint || one->peer.endpoint == endpoint;
  });
  return i == peers_.end() ? nullptr : *i;
}

} // namespace troupe::simulation
