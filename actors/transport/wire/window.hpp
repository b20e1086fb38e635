// Credits: how much may be on its way to a peer and not yet acknowledged.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace troupe::wire {

/// Bounds what a sender holds for one peer. Charged by any thread, acknowledged by the progress thread.
///
/// Requests are refused at the limit, because whoever asked can be told. Nothing may refuse an answer or a
/// notification without breaking a promise in silence, so these have a second window of the same size; who
/// fills that too is not keeping up at all, and the connection ends. A frame larger than the window passes
/// when nothing else is under way.
class send_window {
 public:
  struct limits {
    std::uint64_t bytes = 0;
    std::uint64_t frames = 0;
  };

  explicit send_window(limits size) : size_(size) {}

  /// Takes the receiver's limits into account. Only before the window is shared between threads.
  void limit(limits peers) {
    size_.bytes = std::min(size_.bytes, peers.bytes);
    size_.frames = std::min(size_.frames, peers.frames);
  }

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

} // namespace troupe::wire
