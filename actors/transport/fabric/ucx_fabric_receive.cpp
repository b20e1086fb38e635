// The receiving half of the fabric: from UCX's callback to the listener, in order.

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

namespace {

// More frames than this out of turn is not reordering any more.
constexpr std::uint64_t max_reordering = 1 << 16;

/// Pieces that have come before their turn; hardly ever any.
std::uint64_t num_pieces(const peer_lane& in) {
  return static_cast<std::uint64_t>(
      std::count_if(in.waiting.begin(), in.waiting.end(),
                    [](const auto& entry) { return entry.second->header.kind == frame_kind::piece; }));
}

} // namespace

bool ucx_fabric::arrived(const ucx_worker::arrival& msg) {
  const auto frame = decode_frame(msg.head, msg.num_bytes, settings_.max_frame_bytes);
  const auto& header = frame.header;
  const auto found = by_token_.find(header.token);
  if (found == by_token_.end()) {
    // The last frames of a connection that has ended, or bytes from a stranger: there is no peer to drop.
    ++totals_.stray_frames;
    return false;
  }
  const auto peer = found->second;
  if (!peer->failure.empty())
    return false;
  const auto refuse = [&peer](const char* why) {
    peer->doom(std::string{"malformed frame: "} + why);
    return false;
  };
  if (frame.error != frame_error::none)
    return refuse(to_string(frame.error));
  auto& in = peer->lane_of(header);
  if (header.sequence - in.next_arrival >= max_reordering || in.waiting.contains(header.sequence))
    return refuse("sequence number out of turn");
  if (!in.window.acknowledge(header.acknowledged_frames, header.acknowledged_bytes))
    return refuse("acknowledges what was never sent");
  if (header.kind == frame_kind::acknowledge) {
    if (msg.num_bytes > 0 || !frame.metadata.empty())
      return refuse("an acknowledgement with content");
    if (header.travels_in() == lane::bulk && !peer->pieces_received(header.message_id))
      return refuse("acknowledges what was never sent");
  } else {
    totals_.bytes_received += msg.head.size() + msg.num_bytes;
    if (header.travels_in() == lane::urgent && header.kind == frame_kind::message)
      last_urgent_ = clock::now();
  }
  if (header.kind == frame_kind::piece) {
    if (msg.num_bytes > piece_bytes || num_pieces(in) >= max_pieces_under_way)
      return refuse("the peer ignores the bounds of pieces");
    if (take_piece(msg, *peer, header))
      return false;
  }
  auto slot = std::make_shared<arrival_slot>();
  slot->from = peer;
  slot->header = header;
  if (header.kind != frame_kind::acknowledge && header.kind != frame_kind::piece) {
    slot->due = {header.travels_in(), msg.head.size() + msg.num_bytes + header.rest_bytes};
    if (!in.taken.arrive(slot->due.bytes, settings_.max_frame_bytes))
      return refuse("the peer ignores its window");
    slot->metadata.assign(frame.metadata.begin(), frame.metadata.end());
    slot->payload_offset = frame.payload_offset;
  }
  const bool taken = msg.num_bytes > 0 && take_payload(msg, slot);
  if (msg.num_bytes == 0)
    slot->complete = true;
  if (!peer->failure.empty())
    return taken;
  if (slot->complete && header.sequence == in.next_arrival && in.waiting.empty()
      && peer->current() == peer_connection::state::up) {
    ++in.next_arrival;
    take_in_turn(*peer, std::move(slot));
  } else {
    in.waiting.emplace(header.sequence, std::move(slot));
    collect(*peer);
  }
  return taken;
}

/// Takes the data of a frame into a buffer that holds what follows in pieces as well.
/// @returns whether UCX is told that its data are being fetched
bool ucx_fabric::take_payload(const ucx_worker::arrival& msg, const slot_ptr& slot) {
  const auto& peer = slot->from;
  const auto room = msg.num_bytes + (slot->header.kind == frame_kind::piece ? 0 : slot->header.rest_bytes);
  try {
    slot->data = payload::allocate(room);
  } catch (const std::bad_alloc&) {
    peer->doom("out of memory for a frame of " + std::to_string(room) + " bytes");
    return false;
  }
  if (msg.descriptor == nullptr) {
    std::memcpy(slot->data.mutable_data(), msg.data, msg.num_bytes);
    slot->complete = true;
    return false;
  }
  ++totals_.fetched_frames;
  // UCX writes to the buffer until `ended`, so the slot holds itself until then.
  slot->self = slot;
  switch (msg.at->receive(msg.descriptor, slot->data.mutable_data(), msg.num_bytes, *slot)) {
  case ucx_worker::outcome::pending:
    break;
  case ucx_worker::outcome::done:
    slot->self.reset();
    slot->complete = true;
    break;
  case ucx_worker::outcome::failed:
    slot->self.reset();
    peer->doom("UCX refused to fetch the data of a frame");
    break;
  }
  return true;
}

/// Copies a piece that comes in turn to its place at once.
/// @returns false when it has to wait in a buffer of its own
bool ucx_fabric::take_piece(const ucx_worker::arrival& msg, ucx_peer& peer, const frame_header& header) {
  auto& in = peer.lane_of(header);
  auto& bulk = peer.bulk;
  if (msg.descriptor != nullptr || header.sequence != in.next_arrival || !bulk.incoming
      || msg.num_bytes + header.rest_bytes != bulk.rest_bytes)
    return false;
  auto& data = bulk.incoming->data;
  std::memcpy(data.mutable_data() + (data.size() - bulk.rest_bytes), msg.data, msg.num_bytes);
  bulk.rest_bytes = header.rest_bytes;
  peer.piece_arrived();
  ++in.next_arrival;
  if (bulk.rest_bytes == 0)
    inbox_.push_back(std::move(bulk.incoming));
  collect(peer);
  return true;
}

/// Takes a frame whose turn has come.
void ucx_fabric::take_in_turn(ucx_peer& peer, slot_ptr slot) {
  const auto& header = slot->header;
  auto& bulk = peer.bulk;
  if (header.kind == frame_kind::acknowledge)
    return;
  if (header.travels_in() == lane::urgent) {
    inbox_.push_back(std::move(slot));
    return;
  }
  peer.piece_arrived();
  if (header.kind != frame_kind::piece) {
    if (bulk.incoming) {
      peer.doom("malformed frame: a message before the last piece of the one before it");
    } else if (header.rest_bytes > 0) {
      bulk.rest_bytes = header.rest_bytes;
      bulk.incoming = std::move(slot);
    } else {
      inbox_.push_back(std::move(slot));
    }
    return;
  }
  if (!bulk.incoming || slot->data.size() + header.rest_bytes != bulk.rest_bytes) {
    peer.doom("malformed frame: a piece of no message");
    return;
  }
  auto& data = bulk.incoming->data;
  std::memcpy(data.mutable_data() + (data.size() - bulk.rest_bytes), slot->data.data(), slot->data.size());
  bulk.rest_bytes = header.rest_bytes;
  if (bulk.rest_bytes == 0)
    inbox_.push_back(std::move(bulk.incoming));
}

void ucx_fabric::collect(ucx_peer& peer) {
  if (peer.current() != peer_connection::state::up)
    return;
  for (auto& in : peer.lanes) {
    while (!in.waiting.empty() && peer.failure.empty()) {
      const auto first = in.waiting.begin();
      if (first->first != in.next_arrival || !first->second->complete || !first->second->intact)
        break;
      auto slot = std::move(first->second);
      in.waiting.erase(first);
      ++in.next_arrival;
      take_in_turn(peer, std::move(slot));
    }
  }
}

void ucx_fabric::collect_fetched() {
  if (!std::exchange(signals_.fetched, false))
    return;
  for (const auto& [token, peer] : by_token_)
    collect(*peer);
}

bool ucx_fabric::deliver() {
  std::vector<slot_ptr> ready;
  {
    std::lock_guard guard{worker_mutex_};
    ready.swap(inbox_);
  }
  if (ready.empty())
    return false;
  duty_.allow_jobs(!stop_);
  for (auto& slot : ready) {
    const auto& peer = slot->from;
    if (peer->current() != peer_connection::state::up || peer->malformed)
      continue;
    ++totals_.frames_received;
    std::span<const std::byte> metadata = slot->metadata;
    if ((slot->header.flags & metadata_in_data) != 0)
      metadata = slot->data.bytes().first(slot->header.metadata_bytes);
    auto data = slot->payload_offset == 0
                    ? std::move(slot->data)
                    : slot->data.slice(slot->payload_offset, slot->data.size() - slot->payload_offset);
    if (!ears_.frame_arrived(peer, slot->header, metadata, std::move(data), slot->due)) {
      // The progress loop drops the peer. Dropping it here would deliver later frames of other peers before
      // earlier ones.
      peer->malformed = true;
      std::lock_guard guard{worker_mutex_};
      peer->doom("malformed frame: its content makes no sense");
    }
  }
  return true;
}

} // namespace troupe::wire
