// Load shedding: while the cluster is full for a key, further requests of the key are refused here.
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

/// The room that a request of one prompt needs, as far as it is known before the prompt is tokenized.
struct room_demand {
  std::size_t body_bytes = 0;
  std::uint64_t new_tokens = 0; ///< at most, of all choices; the largest number: as many as fit

  /// Needs at least as much of both.
  bool covers(const room_demand& other) const {
    return body_bytes >= other.body_bytes && new_tokens >= other.new_tokens;
  }
};

/// The last refusal of each key by the cluster, in force for a short time. In overload far more requests come
/// than the queue has places, and tokenizing each one and asking the scheduler would take the cores that
/// answers need. After that time the next request asks again, so that no place of the queue stays empty for
/// longer. A refusal says nothing about requests that need less. Thread-safe. Holds one entry for each key.
class recent_refusals {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// @param holds  how long a refusal is in force; 0: not at all
  explicit recent_refusals(std::chrono::milliseconds holds) : holds_(holds) {}

  /// The cluster has refused this request of a key with this error.
  void add(const std::string& key, const room_demand& wanted, const openai::api_error& error, time_point now);

  /// The error with which to refuse such a request; empty: ask the cluster.
  std::optional<openai::api_error> find(const std::string& key, const room_demand& wanted,
                                        time_point now) const;

 private:
  struct refusal {
    time_point until;
    room_demand least; // the smallest demand that was refused
    openai::api_error error;
  };

  const std::chrono::milliseconds holds_;
  mutable std::mutex mutex_;
  std::map<std::string, refusal> last_;
};

} // namespace troupe::http
