// Sending half of the UCX fabric: layout of messages, credits, and the calls of UCX.

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "actors/transport/fabric/send_operation.hpp"
#include "actors/transport/fabric/ucx_fabric.hpp"
#include "actors/transport/wire/wire_context.hpp"

namespace troupe::wire {

namespace {

// Padding between payloads. UCX only reads it, through a pointer that is not const.
alignas(payload_alignment) std::byte padding[payload_alignment]{};

outgoing_frame acknowledgement(lane of) {
  outgoing_frame result{frame_kind::acknowledge};
  if (of == lane::bulk)
    result.header.flags = bulk_lane;
  return result;
}

void add_padded(std::vector<io_part>& parts, void* data, std::size_t length, bool last) {
  parts.push_back({data, length});
  if (const auto pad = align_payload(length) - length; pad > 0 && !last)
    parts.push_back({padding, pad});
}

} // namespace

outgoing_message::outgoing_message(ucx_peer_ptr peer, outgoing_frame what, std::size_t max_head_bytes)
    : to(std::move(peer)), frame(std::move(what)) {
  auto& header = frame.header;
  const auto metadata_bytes = frame.head.size() - frame_header_bytes;
  header.metadata_bytes = static_cast<std::uint32_t>(metadata_bytes);
  head_bytes = frame.head.size();
  if (head_bytes > max_head_bytes) {
    header.flags |= metadata_in_data;
    head_bytes = frame_header_bytes;
    parts.push_back({frame.head.data() + frame_header_bytes, metadata_bytes});
    if (const auto pad = align_payload(metadata_bytes) - metadata_bytes; pad > 0)
      parts.push_back({padding, pad});
  }
  for (std::size_t i = 0; i < frame.parts.size(); ++i) {
    const auto& part = frame.parts[i];
    add_padded(parts, const_cast<std::byte*>(part.data()), part.size(), i + 1 == frame.parts.size());
  }
  num_bytes = head_bytes;
  for (const auto& part : parts)
    num_bytes += part.length;
}

std::vector<io_part> outgoing_message::cut(std::uint64_t most) {
  begun_ = true;
  std::vector<io_part> result;
  while (most > 0 && next_part_ < parts.size()) {
    auto& part = parts[next_part_];
    const auto length = std::min<std::uint64_t>(most, part.length);
    if (length > 0)
      result.push_back({part.data, length});
    part = {static_cast<std::byte*>(part.data) + length, part.length - length};
    if (part.length == 0)
      ++next_part_;
    most -= length;
    cut_bytes_ += length;
  }
  return result;
}

ucx_fabric::send_operation::send_operation(ucx_fabric& owner, ucx_peer_ptr peer, outgoing_frame what)
    : outgoing_message(std::move(peer), std::move(what), owner.max_head_bytes_), owner_(owner) {}

void ucx_fabric::send_operation::ended(bool) {
  --owner_.operations_;
  delete this;
}

void ucx_fabric::piece_operation::ended(bool) {
  --owner_.operations_;
  delete this;
}

submission ucx_fabric::submit(const peer_connection_ptr& peer, outgoing_frame frame) {
  const auto to = std::static_pointer_cast<ucx_peer>(peer);
  if (!settings_.faults)
    return enqueue(to, std::move(frame));
  const auto what = settings_.faults->decide(frame.header.kind, frame.head.size());
  switch (what.what) {
  case fault::action::pass:
    break;
  case fault::action::drop:
    return submission::accepted;
  case fault::action::delay:
    post([this, to, later = clock::now() + what.later,
          held = std::make_shared<outgoing_frame>(std::move(frame))]() mutable {
      delayed_.emplace(later, delayed_frame{to, std::move(*held)});
    });
    return submission::accepted;
  case fault::action::duplicate:
    enqueue(to, frame);
    break;
  case fault::action::kill:
    drop(to, "killed by failure injection");
    return submission::dead;
  }
  return enqueue(to, std::move(frame));
}

submission ucx_fabric::enqueue(const ucx_peer_ptr& to, outgoing_frame frame) {
  if (to->current() != peer_connection::state::up)
    return submission::dead;
  const bool refusable = frame.refusable;
  const bool free_of_charge = frame.header.kind == frame_kind::acknowledge;
  auto op = std::make_unique<send_operation>(*this, to, std::move(frame));
  if (op->num_bytes > settings_.max_frame_bytes || op->frame.head.size() > UINT32_MAX) {
    ++totals_.frames_refused;
    return submission::too_large;
  }
  auto& window = to->lane_of(op->frame.header).window;
  if (!free_of_charge && !window.charge(op->num_bytes, refusable ? 1 : 2)) {
    ++totals_.frames_refused;
    if (!refusable)
      drop(to, "the peer does not keep up: it has not handled two windows of "
                   + std::to_string(window.size().bytes) + " bytes or " + std::to_string(window.size().frames)
                   + " messages");
    return submission::window_full;
  }
  if (std::unique_lock lock{worker_mutex_, std::try_to_lock}; lock.owns_lock()) {
    drain_queue();
    post_frame(std::move(op));
  } else {
    std::lock_guard guard{queue_mutex_};
    queue_.push_back(std::move(op));
    ++queued_;
  }
  // A thread that releases the worker mutex looks at the queue again. So either that thread sees the frame,
  // or this one gets the mutex now, and no thread has to be woken. The fence pairs with the one after each
  // release.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  while (queued_.load() > 0) {
    std::unique_lock lock{worker_mutex_, std::try_to_lock};
    if (!lock.owns_lock())
      break;
    drain_queue();
    lock.unlock();
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  return submission::accepted;
}

void ucx_fabric::drain_queue() {
  if (queued_.load() == 0)
    return;
  std::deque<std::unique_ptr<send_operation>> taken;
  {
    std::lock_guard guard{queue_mutex_};
    taken.swap(queue_);
    queued_ = 0;
  }
  for (auto& op : taken)
    post_frame(std::move(op));
}

void ucx_fabric::post_frame(std::unique_ptr<send_operation> op) {
  const auto to = op->to;
  auto& peer = *to;
  if (peer.endpoint == nullptr)
    return;
  auto& header = op->frame.header;
  if (header.travels_in() == lane::bulk) {
    if (header.kind != frame_kind::acknowledge) {
      peer.bulk.outgoing.push_back(std::move(op));
      send_pieces(peer);
      return;
    }
    header.message_id = peer.bulk.pieces_told = peer.bulk.pieces_arrived;
  }
  ++totals_.frames_sent;
  const auto head = std::as_writable_bytes(std::span{op->frame.head}).first(op->head_bytes);
  const auto parts = std::span{op->parts};
  give_to_ucx(peer, header, head, parts, std::move(op));
}

void ucx_fabric::send_pieces(ucx_peer& peer) {
  auto& bulk = peer.bulk;
  while (!bulk.outgoing.empty() && bulk.pieces_sent - bulk.pieces_received < max_pieces_under_way
         && !pieces_pause(bulk)) {
    auto op = std::make_unique<piece_operation>(*this, bulk.outgoing.front());
    auto& whole = *op->whole;
    frame_header header;
    std::span<std::byte> head = op->head;
    if (whole.is_begun()) {
      header.kind = frame_kind::piece;
      header.flags = bulk_lane;
    } else {
      header = whole.frame.header;
      head = std::as_writable_bytes(std::span{whole.frame.head}).first(whole.head_bytes);
      ++totals_.frames_sent;
    }
    op->parts = whole.cut(piece_bytes);
    header.rest_bytes = whole.rest_bytes();
    if (header.rest_bytes == 0)
      bulk.outgoing.pop_front();
    ++bulk.pieces_sent;
    bulk.last_sent = clock::now();
    const auto parts = std::span{op->parts};
    give_to_ucx(peer, header, head, parts, std::move(op));
  }
}

/// While urgent messages are exchanged; notes when the pause ends.
bool ucx_fabric::pieces_pause(const bulk_traffic& bulk) {
  const auto now = clock::now();
  if (now - last_urgent_ >= urgent_for)
    return false;
  if (bulk.pieces_sent != bulk.pieces_received)
    return true; // goes on when the peer has told
  if (now >= bulk.pause_until)
    return false;
  const auto until = bulk.pause_until.time_since_epoch().count();
  if (const auto due = pieces_due_.load(); due == 0 || until < due) {
    pieces_due_ = until;
    wake();
  }
  return true;
}

void ucx_fabric::move_pieces() {
  const auto due = pieces_due_.load();
  const bool is_due = due != 0 && clock::now().time_since_epoch().count() >= due;
  if (!std::exchange(signals_.pieces_moved, false) && !is_due)
    return;
  pieces_due_ = 0;
  for (const auto& [token, peer] : by_token_) {
    if (peer->endpoint == nullptr)
      continue;
    send_pieces(*peer);
    if (peer->bulk.pieces_told != peer->bulk.pieces_arrived)
      post_frame(std::make_unique<send_operation>(*this, peer, acknowledgement(lane::bulk)));
  }
}

void ucx_fabric::give_to_ucx(ucx_peer& peer, frame_header& header, std::span<std::byte> head,
                             std::span<io_part> parts, std::unique_ptr<ucx_worker::operation> op) {
  auto& out = peer.lane_of(header);
  if (header.travels_in() == lane::urgent && header.kind == frame_kind::message)
    last_urgent_ = clock::now();
  header.token = peer.peer.token;
  header.sequence = out.next_sequence++;
  const auto told = out.taken.told();
  header.acknowledged_frames = told.frames;
  header.acknowledged_bytes = told.bytes;
  encode_frame(header, head.first<frame_header_bytes>());
  totals_.bytes_sent += head.size();
  for (const auto& part : parts)
    totals_.bytes_sent += part.length;
  switch (peer.carrier->post(peer.endpoint, head, parts, *op)) {
  case ucx_worker::outcome::done:
    break;
  case ucx_worker::outcome::pending:
    // Lives until `ended`. The progress thread may be asleep on what it armed before this send.
    ++operations_;
    static_cast<void>(op.release());
    wake();
    break;
  case ucx_worker::outcome::failed:
    peer.doom("UCX refused a send");
    wake();
    break;
  }
}

void ucx_fabric::handled(const peer_connection_ptr& peer, credit what) {
  if (peer->lanes[static_cast<std::size_t>(what.of)].taken.handle(what.bytes))
    enqueue(std::static_pointer_cast<ucx_peer>(peer), acknowledgement(what.of));
}

void ucx_fabric::wake() {
  if (duty_.is_here())
    return;
  const std::uint64_t one = 1;
  // Only fails when the counter is full, which wakes as well.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

} // namespace troupe::wire
