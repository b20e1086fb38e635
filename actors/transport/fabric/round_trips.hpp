// How far away the peers of one kind are.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace troupe::wire {

/// Round trips on the connections to some peers, as the kernel has measured them.
struct round_trips {
  std::size_t num_peers = 0;
  std::chrono::microseconds slowest{0};
  std::chrono::microseconds sum{0};

  void add(const round_trips& more) {
    num_peers += more.num_peers;
    slowest = std::max(slowest, more.slowest);
    sum += more.sum;
  }

  /// 0 without peers.
  std::chrono::duration<double> mean() const {
    return std::chrono::duration<double>{sum} / static_cast<double>(std::max<std::size_t>(num_peers, 1));
  }
};

} // namespace troupe::wire
