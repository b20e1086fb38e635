// File descriptors and their handlers, for one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "actors/transport/fabric/socket.hpp"

namespace troupe::wire {

class poller {
 public:
  using callback = std::function<void()>;
  using watch_id = std::uint64_t;

  /// @errors throws `std::runtime_error` when the system has no epoll instance left
  poller();

  /// Calls `on_ready` while `fd` is readable (or, if asked, writable) or broken. `fd` must stay open until
  /// `forget`.
  watch_id watch(int fd, bool for_writing, callback on_ready);

  /// Waits for the opposite of what was asked at `watch`.
  void change(watch_id id, bool for_writing);

  /// May be called from a callback, for any watch.
  void forget(watch_id id);

  /// Waits at most `timeout` and runs the callbacks that are due.
  void wait(std::chrono::milliseconds timeout);

 private:
  struct entry {
    int fd;
    callback on_ready;
  };

  descriptor epoll_;
  watch_id next_id_ = 1;
  std::unordered_map<watch_id, std::shared_ptr<entry>> entries_;
};

} // namespace troupe::wire
