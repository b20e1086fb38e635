// Load shedding: while the cluster is full for a key, its requests are refused without asking again each
// time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {

/// The room that a request of one prompt asks for, as far as it can be told before its prompt is tokens.
struct room_demand {
  size_t body_bytes = 0;
  uint64_t new_tokens = 0; ///< at most, of all choices; the largest number: as many as fit

  /// Whether it asks for no less of either.
  bool covers(const room_demand& other) const {
    return body_bytes >= other.body_bytes && new_tokens >= other.new_tokens;
  }
};

/// The cluster's last refusal of each key's requests. It holds for a short time: far more requests come in
/// overload than the queue has places to give, and to tokenize each one and to ask the scheduler takes the
/// cores that the answers need. At the end of that time the next request asks, so that no place of the queue
/// stays empty for longer. A request without room says nothing about one that asks for less. Thread-safe.
/// Holds one entry a key.
class recent_refusals {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// @param holds  how long a refusal counts; 0: not at all
  explicit recent_refusals(std::chrono::milliseconds holds) : holds_(holds) {}

  /// The cluster had no room for this request of a key, and said so with this error.
  void add(const std::string& key, const room_demand& wanted, const openai::api_error& error, time_point now);

  /// The error to refuse such a request with; none: ask the cluster.
  std::optional<openai::api_error> find(const std::string& key, const room_demand& wanted,
                                        time_point now) const;

 private:
  struct refusal {
    time_point until;
    room_demand least; // that was refused in that time
    openai::api_error error;
  };

  const std::chrono::milliseconds holds_;
  mutable std::mutex mutex_;
  std::map<std::string, refusal> last_;
};

} // namespace troupe::http
