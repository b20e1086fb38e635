// DNS off the progress thread: getaddrinfo blocks, and a slow name server must not look like a dead peer.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/transport/fabric/socket.hpp"

namespace troupe::wire {

class name_lookup {
 public:
  using callback = std::function<void(std::vector<socket_address> addresses, std::string error)>;

  name_lookup() = default;
  name_lookup(const name_lookup&) = delete;
  name_lookup& operator=(const name_lookup&) = delete;

  /// Waits for a lookup that is under way.
  ~name_lookup();

  /// Looks `name` up and calls `done` on this object's thread; on the caller's when the queue is full.
  void start(const endpoint_name& name, callback done);

 private:
  struct job {
    endpoint_name name;
    callback done;
  };

  void run();

  // One lookup at a time, and no more waiting than a start-up of a large cluster asks for.
  static constexpr std::size_t max_jobs = 256;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

} // namespace troupe::wire
