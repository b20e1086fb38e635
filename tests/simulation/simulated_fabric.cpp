#include "tests/simulation/simulated_fabric.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "actors/transport/wire/wire_context.hpp"

namespace troupe::simulation {

namespace {

using wire::frame_kind;
using wire::submission;
using state = wire::peer_connection::state;

// Longer metadata goes in front of the data, as with the real fabric.
constexpr std::size_t max_head_bytes = 4096;

constexpr std::size_t heartbeat_bytes = 44;
constexpr std::size_t introduction_bytes = 400;

std::string machine_of(const std::string& endpoint) {
  return endpoint.substr(0, endpoint.rfind(':'));
}

/// Payloads one after another, each padded, behind metadata that is too long for the head.
payload pack(const std::vector<char>& metadata, const std::vector<payload>& parts) {
  auto num_bytes = align_payload(metadata.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    num_bytes += i + 1 == parts.size() ? parts[i].size() : align_payload(parts[i].size());
  if (parts.empty())
    num_bytes = align_payload(metadata.size());
  if (num_bytes == 0)
    return {};
  auto result = payload::allocate(num_bytes);
  auto* to = result.mutable_data();
  std::memset(to, 0, num_bytes);
  if (!metadata.empty())
    std::memcpy(to, metadata.data(), metadata.size());
  to += align_payload(metadata.size());
  for (const auto& part : parts) {
    if (!part.empty())
      std::memcpy(to, part.data(), part.size());
    to += align_payload(part.size());
  }
  return result;
}

} // namespace

simulated_fabric::simulated_fabric(network& carrier, place where, wire::fabric_settings settings,
                                   listener& ears)
    : network_(carrier),
      where_(std::move(where)),
      settings_(std::move(settings)),
      ears_(ears),
      meeting_(settings_, static_cast<wire::peer_meeting::host&>(*this)) {
  meeting_.start(network::endpoint_of(where_.machine),
                 now() + network_.random().up_to(wire::peer_meeting::tick_interval));
}

simulated_fabric::~simulated_fabric() {
  stop();
}

void simulated_fabric::start() {
  network_.listen(where_.machine, *this);
  plan_tick();
}

void simulated_fabric::stop() {
  if (std::exchange(stopped_, true))
    return;
  network_.stop_listening(where_.machine);
  const auto peers = meeting_.peers();
  for (const auto& peer : peers)
    fail(peer, "this process is leaving");
  for (const auto& [endpoint, peer] : dialled_)
    hang_up(peer);
  dialled_.clear();
  // Attempts and tasks may hold actors, which must not outlive their system.
  meeting_.forget_attempts();
  tasks_.clear();
}

void simulated_fabric::post(std::function<void()> task) {
  if (stopped_)
    return;
  tasks_.push_back(std::move(task));
  plans().at(plans().now(), [this, gate = where_.gate] {
    gate->pass([this] {
      if (tasks_.empty())
        return;
      const auto next = std::move(tasks_.front());
      tasks_.pop_front();
      next();
    });
  });
}

void simulated_fabric::drop(const wire::peer_connection_ptr& peer, std::string reason) {
  post([this, peer, why = std::move(reason)] { fail(peer, why); });
}

wire::fabric_level simulated_fabric::level() const {
  wire::fabric_level result;
  result.peers = meeting_.peers().size();
  for (const auto& peer : meeting_.peers())
    for (std::size_t i = 0; i < wire::num_lanes; ++i)
      result.bytes_under_way[i] += peer->lanes[i].window.bytes_under_way();
  return result;
}

// -- coming ---------------------------------------------------------------------------

simulated_peer_ptr simulated_fabric::make_peer() {
  auto result = std::make_shared<simulated_peer>(network_.random().next() | 1U, settings_.window);
  result->last_heard = now();
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
  post([this, name = std::move(endpoint), deadline, done = std::move(done)] {
    meeting_.connect(name, deadline, done);
  });
}

void simulated_fabric::dial(const std::string& endpoint) {
  const auto machine = machine_of(endpoint);
  auto peer = make_peer();
  peer->dialled = endpoint;
  dialled_[endpoint] = peer;
  peer->out = network_.make_pipe(where_.machine, machine, nullptr);
  peer->in = network_.make_pipe(machine, where_.machine, where_.gate);
  attach(peer);
  network_.knock(
      where_.machine, machine,
      [who = meeting_.introduce(peer->token), there = peer->out, back = peer->in](simulated_fabric& other) {
        other.come_in(who, there, back);
      },
      [this, gate = where_.gate, whose = std::weak_ptr{peer}] {
        gate->pass([this, whose] {
          if (const auto alive = whose.lock())
            fail(alive, "connection refused");
        });
      });
}

void simulated_fabric::stop_dialling(const std::string& endpoint) {
  if (const auto dialled = dialled_.extract(endpoint))
    hang_up(dialled.mapped());
}

void simulated_fabric::come_in(wire::introduction guest, const pipe_ptr& there, const pipe_ptr& back) {
  if (there->is_closed || stopped_)
    return;
  packet answer;
  auto no = std::optional{std::pair{wire::refusal::fingerprint,
                                    wire::fingerprint_mismatch(settings_.fingerprint, guest.fingerprint)}};
  if (no->second.empty())
    no = meeting_.admit(guest);
  if (no) {
    answer.what = packet::kind::refusal;
    answer.from = meeting_.introduce(0);
    answer.reason = no->first;
    answer.text = no->second;
    network_.send(back, std::move(answer), introduction_bytes);
    return;
  }
  auto peer = make_peer();
  peer->in = there;
  peer->out = back;
  attach(peer);
  answer.what = packet::kind::welcome;
  answer.from = meeting_.introduce(peer->token);
  network_.send(back, std::move(answer), introduction_bytes);
  rise(peer, std::move(guest));
}

void simulated_fabric::rise(const simulated_peer_ptr& peer, wire::introduction who) {
  if (!meeting_.keeps(who, peer->dialled)) {
    hang_up(peer);
    return;
  }
  peer->meet(std::move(who));
  peer->become(state::up);
  meeting_.add(peer, now());
  ears_.peer_up(peer);
  meeting_.settle(peer);
}

void simulated_fabric::refused(const simulated_peer_ptr& peer, const packet& word) {
  hang_up(peer);
  dialled_.erase(peer->dialled);
  meeting_.missed(peer->dialled, word.text, word.reason, word.from.node, now());
}

// -- sending ----------------------------------------------------------------------

submission simulated_fabric::submit(const wire::peer_connection_ptr& to, wire::outgoing_frame frame) {
  return enqueue(std::static_pointer_cast<simulated_peer>(to), std::move(frame));
}

submission simulated_fabric::enqueue(const simulated_peer_ptr& to, wire::outgoing_frame frame) {
  if (to->current() != state::up || stopped_)
    return submission::dead;
  auto& header = frame.header;
  header.metadata_bytes = static_cast<std::uint32_t>(frame.head.size() - wire::frame_header_bytes);
  packet sent;
  if (frame.head.size() > max_head_bytes) {
    header.flags |= wire::metadata_in_data;
    sent.data = pack({frame.head.begin() + wire::frame_header_bytes, frame.head.end()}, frame.parts);
    frame.head.resize(wire::frame_header_bytes);
  } else {
    sent.data = pack({}, frame.parts);
  }
  const auto num_bytes = frame.head.size() + sent.data.size();
  if (num_bytes > settings_.max_frame_bytes) {
    ++totals_.frames_refused;
    return submission::too_large;
  }
  auto& lane = to->lane_of(header);
  if (header.kind != frame_kind::acknowledge && !lane.window.charge(num_bytes, frame.refusable ? 1 : 2)) {
    ++totals_.frames_refused;
    if (!frame.refusable)
      drop(to, "the peer does not keep up: it has not handled two windows");
    return submission::window_full;
  }
  header.token = to->peer.token;
  header.sequence = lane.next_sequence++;
  const auto told = lane.taken.told();
  header.acknowledged_frames = told.frames;
  header.acknowledged_bytes = told.bytes;
  wire::encode_frame(header, std::as_writable_bytes(std::span{frame.head}).first<wire::frame_header_bytes>());
  ++totals_.frames_sent;
  totals_.bytes_sent += num_bytes;
  sent.head = std::move(frame.head);
  network_.send(to->out, std::move(sent), num_bytes);
  return submission::accepted;
}

void simulated_fabric::send_heartbeat(const wire::peer_connection_ptr& peer) {
  packet alive;
  alive.what = packet::kind::heartbeat;
  for (std::size_t i = 0; i < wire::num_lanes; ++i)
    alive.handled[i] = peer->lanes[i].taken.handled();
  network_.send(static_cast<simulated_peer&>(*peer).out, std::move(alive), heartbeat_bytes);
}

// -- receiving ----------------------------------------------------------------------

void simulated_fabric::arrived(const simulated_peer_ptr& peer, packet& what) {
  if (peer->current() == state::dead)
    return;
  peer->last_heard = now();
  switch (what.what) {
  case packet::kind::welcome:
    dialled_.erase(peer->dialled);
    rise(peer, std::move(what.from));
    break;
  case packet::kind::refusal:
    refused(peer, what);
    break;
  case packet::kind::heartbeat:
    for (std::size_t i = 0; i < wire::num_lanes; ++i)
      if (!peer->lanes[i].window.acknowledge(what.handled[i].frames, what.handled[i].bytes)) {
        fail(peer, "malformed heartbeat");
        return;
      }
    break;
  case packet::kind::frame:
    frame_arrived(peer, what);
    break;
  }
}

void simulated_fabric::frame_arrived(const simulated_peer_ptr& peer, packet& what) {
  const auto charge = what.head.size() + what.data.size();
  const auto frame =
      wire::decode_frame(std::as_bytes(std::span{what.head}), what.data.size(), settings_.max_frame_bytes);
  const auto& header = frame.header;
  if (frame.error != wire::frame_error::none) {
    fail(peer, std::string{"malformed frame: "} + wire::to_string(frame.error));
    return;
  }
  auto& lane = peer->lane_of(header);
  if (header.token != peer->token || header.sequence != lane.next_arrival++) {
    fail(peer, "malformed frame: out of turn");
    return;
  }
  if (!lane.window.acknowledge(header.acknowledged_frames, header.acknowledged_bytes)) {
    fail(peer, "malformed frame: acknowledges what was never sent");
    return;
  }
  if (header.kind == frame_kind::acknowledge)
    return;
  if (!lane.taken.arrive(charge, settings_.max_frame_bytes)) {
    fail(peer, "the peer ignores its window");
    return;
  }
  totals_.bytes_received += charge;
  ++totals_.frames_received;
  auto metadata = frame.metadata;
  if ((header.flags & wire::metadata_in_data) != 0)
    metadata = what.data.bytes().first(header.metadata_bytes);
  auto data = frame.payload_offset == 0
                  ? what.data
                  : what.data.slice(frame.payload_offset, what.data.size() - frame.payload_offset);
  if (!ears_.frame_arrived(peer, header, metadata, std::move(data), {header.travels_in(), charge}))
    fail(peer, "malformed frame: its content makes no sense");
}

void simulated_fabric::handled(const wire::peer_connection_ptr& peer, wire::credit what) {
  if (!peer->lanes[static_cast<std::size_t>(what.of)].taken.handle(what.bytes))
    return;
  wire::outgoing_frame told{frame_kind::acknowledge};
  if (what.of == wire::lane::bulk)
    told.header.flags = wire::bulk_lane;
  submit(peer, std::move(told));
}

// -- time, and the end --------------------------------------------------------------

void simulated_fabric::plan_tick() {
  plans().at(meeting_.next_tick() - where_.clock_offset, [this, gate = where_.gate] {
    gate->pass([this] {
      if (!stopped_)
        tick();
    });
  });
}

void simulated_fabric::tick() {
  std::vector<simulated_peer_ptr> silent;
  for (const auto& [endpoint, peer] : dialled_)
    if (now() - peer->last_heard >= settings_.handshake_deadline)
      silent.push_back(peer);
  for (const auto& peer : silent)
    fail(peer, "no handshake within the deadline");
  meeting_.tick(now());
  ears_.tick(now());
  plan_tick();
}

void simulated_fabric::hang_up(const simulated_peer_ptr& peer) {
  peer->become(state::dead);
  network_.close(peer->out);
}

bool simulated_fabric::has_closed(const wire::peer_connection_ptr& peer) const {
  return static_cast<const simulated_peer&>(*peer).in->is_closed;
}

void simulated_fabric::fail(const wire::peer_connection_ptr& which, const std::string& reason) {
  if (which->current() == state::dead)
    return;
  const auto peer = std::static_pointer_cast<simulated_peer>(which);
  const bool was_up = peer->current() == state::up;
  hang_up(peer);
  meeting_.remove(peer);
  if (!was_up) {
    dialled_.erase(peer->dialled);
    meeting_.missed(peer->dialled, reason, std::nullopt, {}, now());
    return;
  }
  ++totals_.peers_lost;
  if (settings_.log)
    settings_.log("peer-down", peer->peer.endpoint + ": " + reason);
  ears_.peer_down(peer, reason);
}

std::unique_ptr<wire::fabric> simulated_fabric_maker::make(wire::fabric_settings settings,
                                                           wire::fabric::listener& ears) {
  return std::make_unique<simulated_fabric>(network_, where_, std::move(settings), ears);
}

} // namespace troupe::simulation
