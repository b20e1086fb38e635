// The sending half of the fabric: layout, credits, and who posts.

#include <cstring>

#include <unistd.h>

#include "actors/transport/fabric/send_operation.hpp"
#include "actors/transport/fabric/ucx_fabric.hpp"
#include "actors/transport/wire/wire_context.hpp"

namespace troupe::wire {

namespace {

// Padding between payloads. UCX only reads it, through a pointer that is not const.
alignas(payload_alignment) std::byte padding[payload_alignment]{};

void add_padded(std::vector<io_part>& parts, void* data, std::size_t length, bool last) {
  parts.push_back({data, length});
  if (const auto pad = align_payload(length) - length; pad > 0 && !last)
    parts.push_back({padding, pad});
}

} // namespace

ucx_fabric::send_operation::send_operation(ucx_fabric& owner, ucx_peer_ptr peer, outgoing_frame what)
    : owner_(owner), to(std::move(peer)), frame(std::move(what)) {
  auto& header = frame.header;
  const auto metadata_bytes = frame.head.size() - frame_header_bytes;
  header.metadata_bytes = static_cast<std::uint32_t>(metadata_bytes);
  head_bytes = frame.head.size();
  if (head_bytes > owner_.max_head_bytes_) {
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

void ucx_fabric::send_operation::ended(bool) {
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
  if (!free_of_charge && !to->window.charge(op->num_bytes, refusable ? 1 : 2)) {
    ++totals_.frames_refused;
    if (!refusable)
      drop(to, "the peer does not keep up: two windows of " + std::to_string(to->window.size().bytes)
                   + " bytes and " + std::to_string(to->window.size().frames) + " frames are unacknowledged");
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
  // Whoever holds the worker looks at the queue again after letting go, so either that thread sees the frame
  // or this one gets the worker now: nobody needs to be woken. The fence pairs with the one behind each
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
  auto& peer = *op->to;
  if (peer.endpoint == nullptr)
    return;
  auto& header = op->frame.header;
  header.token = peer.peer.token;
  header.sequence = peer.next_sequence++;
  header.acknowledged_frames = peer.delivered_frames.load();
  header.acknowledged_bytes = peer.delivered_bytes.load();
  peer.told_frames = header.acknowledged_frames;
  peer.told_bytes = header.acknowledged_bytes;
  const auto head = std::as_writable_bytes(std::span{op->frame.head}).first(op->head_bytes);
  encode_frame(header, head.first<frame_header_bytes>());
  ++totals_.frames_sent;
  totals_.bytes_sent += op->num_bytes;
  switch (peer.carrier->post(peer.endpoint, head, op->parts, *op)) {
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

void ucx_fabric::acknowledge(const ucx_peer_ptr& peer) {
  enqueue(peer, outgoing_frame{frame_kind::acknowledge});
}

void ucx_fabric::wake() {
  if (std::this_thread::get_id() == progress_thread_.load())
    return;
  const std::uint64_t one = 1;
  // Only fails when the counter is full, which wakes as well.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

} // namespace troupe::wire
