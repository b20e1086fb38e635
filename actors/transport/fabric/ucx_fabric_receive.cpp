// The receiving half of the fabric: from UCX's callback to the listener, in order.

#include <cstring>
#include <new>

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

namespace {

// More frames than this out of turn is not reordering any more.
constexpr std::uint64_t max_reordering = 1 << 16;

} // namespace

bool ucx_fabric::arrived(const ucx_worker::arrival& msg) {
  const auto frame = decode_frame(msg.head, msg.num_bytes, settings_.max_frame_bytes);
  const auto& header = frame.header;
  const auto found = by_token_.find(header.token);
  if (found == by_token_.end()) {
    // A fenced connection's last words, or bytes from a stranger: nobody to blame.
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
  if (header.sequence - peer->next_arrival >= max_reordering || peer->waiting.contains(header.sequence))
    return refuse("sequence number out of turn");
  if (!peer->window.acknowledge(header.acknowledged_frames, header.acknowledged_bytes))
    return refuse("acknowledges what was never sent");
  auto slot = std::make_shared<arrival_slot>();
  slot->from = peer;
  slot->header = header;
  if (header.kind == frame_kind::acknowledge) {
    if (msg.num_bytes > 0 || !frame.metadata.empty())
      return refuse("an acknowledgement with content");
    slot->complete = true;
  } else {
    slot->charge = msg.head.size() + msg.num_bytes;
    peer->held_bytes += slot->charge;
    if (peer->held_bytes > std::max(2 * settings_.window.bytes, settings_.max_frame_bytes))
      return refuse("the peer ignores its window");
    slot->metadata.assign(frame.metadata.begin(), frame.metadata.end());
    slot->payload_offset = frame.payload_offset;
  }
  totals_.bytes_received += slot->charge;
  bool taken = false;
  if (msg.num_bytes > 0) {
    try {
      slot->data = payload::allocate(msg.num_bytes);
    } catch (const std::bad_alloc&) {
      peer->doom("out of memory for a frame of " + std::to_string(msg.num_bytes) + " bytes");
      return false;
    }
    if (msg.descriptor == nullptr) {
      std::memcpy(slot->data.mutable_data(), msg.data, msg.num_bytes);
      slot->complete = true;
    } else {
      taken = true;
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
        return true;
      }
    }
  } else {
    slot->complete = true;
  }
  if (slot->complete && header.sequence == peer->next_arrival && peer->waiting.empty()
      && peer->current() == peer_connection::state::up) {
    ++peer->next_arrival;
    inbox_.push_back(std::move(slot));
  } else {
    peer->waiting.emplace(header.sequence, std::move(slot));
    collect(*peer);
  }
  return taken;
}

void ucx_fabric::collect(ucx_peer& peer) {
  if (peer.current() != peer_connection::state::up)
    return;
  while (!peer.waiting.empty()) {
    const auto first = peer.waiting.begin();
    if (first->first != peer.next_arrival || !first->second->complete || !first->second->intact)
      return;
    inbox_.push_back(std::move(first->second));
    peer.waiting.erase(first);
    ++peer.next_arrival;
  }
}

bool ucx_fabric::deliver() {
  std::vector<slot_ptr> ready;
  {
    std::lock_guard guard{worker_mutex_};
    ready.swap(inbox_);
  }
  if (ready.empty())
    return false;
  allow_jobs();
  for (auto& slot : ready) {
    const auto& peer = slot->from;
    if (slot->header.kind == frame_kind::acknowledge || peer->current() != peer_connection::state::up
        || peer->malformed)
      continue;
    ++totals_.frames_received;
    std::span<const std::byte> metadata = slot->metadata;
    if ((slot->header.flags & metadata_in_data) != 0)
      metadata = slot->data.bytes().first(slot->header.metadata_bytes);
    auto data = slot->payload_offset == 0
                    ? std::move(slot->data)
                    : slot->data.slice(slot->payload_offset, slot->data.size() - slot->payload_offset);
    if (!ears_.frame_arrived(peer, slot->header, metadata, std::move(data))) {
      // Buried by the progress loop: burying here would hand out later frames of others before earlier ones.
      peer->malformed = true;
      std::lock_guard guard{worker_mutex_};
      peer->doom("malformed frame: its content makes no sense");
      continue;
    }
    peer->held_bytes -= slot->charge;
    const auto bytes = peer->delivered_bytes += slot->charge;
    const auto frames = ++peer->delivered_frames;
    // Usually the next frame the other way tells the peer. A quarter of the window keeps a one-way stream
    // flowing.
    if (bytes - peer->told_bytes >= settings_.window.bytes / 4
        || frames - peer->told_frames >= settings_.window.frames / 4)
      acknowledge(peer);
  }
  return true;
}

} // namespace troupe::wire
