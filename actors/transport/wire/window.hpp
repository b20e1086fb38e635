// Credits: how much a peer may be sent that its actors have not handled yet.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "actors/transport/wire/frame.hpp"

namespace troupe::wire {

/// The sender's side of a lane: bounds what it holds for one peer, and what waits in the mailboxes there.
/// Charged by any thread, acknowledged by the progress thread.
///
/// A request is refused at the limit, because its sender gets the error. Refusing an answer or a notification
/// would break a promise in silence, so these have a second window of the same size. A peer that fills that,
/// too, does not keep up at all, and the connection ends. A frame larger than the window passes when no other
/// frame is in flight.
class send_window {
 public:
  struct limits {
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;

    limits smaller(limits others) const {
      return {std::min(bytes, others.bytes), std::min(frames, others.frames)};
    }
  };

  explicit send_window(limits size) : size_(size) {}

  /// Takes the receiver's limits into account. Only before the window is shared between threads.
  void limit(limits peers) { size_ = size_.smaller(peers); }

  /// Charges a frame of `num_bytes`; false, charging nothing, when it does not fit into `share` windows.
  bool charge(std::uint64_t num_bytes, std::uint64_t share) {
    const auto bytes = charged_bytes_.fetch_add(num_bytes) - acknowledged_bytes_.load();
    const auto frames = charged_frames_.fetch_add(1) - acknowledged_frames_.load();
    if (bytes == 0 || (bytes + num_bytes <= share * size_.bytes && frames < share * size_.frames))
      return true;
    charged_bytes_.fetch_sub(num_bytes);
    charged_frames_.fetch_sub(1);
    return false;
  }

  /// Takes the peer's counters. False when it claims to have received what was never sent.
  bool acknowledge(std::uint64_t frames, std::uint64_t bytes) {
    if (frames > charged_frames_.load() || bytes > charged_bytes_.load())
      return false;
    // Counters travel on two channels, so an older pair may come later.
    if (frames > acknowledged_frames_.load())
      acknowledged_frames_.store(frames);
    if (bytes > acknowledged_bytes_.load())
      acknowledged_bytes_.store(bytes);
    return true;
  }

  std::uint64_t bytes_under_way() const { return charged_bytes_.load() - acknowledged_bytes_.load(); }

  std::uint64_t frames_under_way() const { return charged_frames_.load() - acknowledged_frames_.load(); }

  const limits& size() const { return size_; }

 private:
  limits size_;
  std::atomic<std::uint64_t> charged_bytes_{0};
  std::atomic<std::uint64_t> charged_frames_{0};
  std::atomic<std::uint64_t> acknowledged_bytes_{0};
  std::atomic<std::uint64_t> acknowledged_frames_{0};
};

/// What a message that has arrived costs of its sender's window until it has been handled.
struct credit {
  lane of = lane::urgent;
  std::uint64_t bytes = 0;
};

/// The receiver's side of a lane: counts what comes and what has been handled of it, and says when the sender
/// is to be told.
class receive_window {
 public:
  explicit receive_window(send_window::limits size) : size_(size) {}

  /// Takes the sender's limits into account. Only before anything is handled.
  void limit(send_window::limits peers) { size_ = size_.smaller(peers); }

  struct totals {
    std::uint64_t frames = 0;
    std::uint64_t bytes = 0;
  };

  /// Counts a message that arrives. One thread at a time.
  /// @param largest  a message of up to so many bytes may exceed the window when it comes alone
  /// @returns false when the sender ignores its window
  bool arrive(std::uint64_t num_bytes, std::uint64_t largest) {
    ++arrived_.frames;
    arrived_.bytes += num_bytes;
    return arrived_.bytes - handled_bytes_.load() <= std::max(2 * size_.bytes, largest)
           && arrived_.frames - handled_frames_.load() <= 2 * size_.frames + 1;
  }

  /// Counts a message that has been handled.
  /// @threads any
  /// @returns true when the sender should be told now; to one caller, until `told`
  bool handle(std::uint64_t num_bytes) {
    const auto bytes = handled_bytes_.fetch_add(num_bytes) + num_bytes;
    const auto frames = handled_frames_.fetch_add(1) + 1;
    // Usually the next frame the other way tells the sender. A quarter of the window keeps a one-way stream
    // flowing. Signed: another thread may have told it of more meanwhile.
    const auto untold = [](std::uint64_t count, const std::atomic<std::uint64_t>& told) {
      return static_cast<std::int64_t>(count - told.load());
    };
    return (untold(bytes, told_bytes_) >= static_cast<std::int64_t>(size_.bytes / 4)
            || untold(frames, told_frames_) >= static_cast<std::int64_t>(size_.frames / 4))
           && !is_told_soon_.exchange(true);
  }

  /// What has been handled, to be written into a frame that is sent now.
  totals told() {
    is_told_soon_ = false;
    const auto now = handled();
    told_bytes_ = now.bytes;
    told_frames_ = now.frames;
    return now;
  }

  totals handled() const { return {handled_frames_.load(), handled_bytes_.load()}; }

 private:
  send_window::limits size_;
  totals arrived_;
  std::atomic<std::uint64_t> handled_bytes_{0};
  std::atomic<std::uint64_t> handled_frames_{0};
  std::atomic<std::uint64_t> told_bytes_{0};
  std::atomic<std::uint64_t> told_frames_{0};
  std::atomic<bool> is_told_soon_{false};
};

} // namespace troupe::wire
