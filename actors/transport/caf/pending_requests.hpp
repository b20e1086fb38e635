// Requests to peers that wait for an answer, so that every one of them gets one when its peer dies.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/message_id.hpp>

namespace troupe {

/// Holds the requesters, as the mailbox of a local receiver would, until the answer is there.
///
/// @threads any
class pending_requests {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct request {
    caf::strong_actor_ptr requester;
    /// Id of the response.
    caf::message_id response;
    /// The requester belongs to a third process and has delegated through this one.
    bool foreign = false;
    /// The connection it went out on.
    std::uint64_t token = 0;
    time_point since;
  };

  void add(request what);

  /// Takes the request out whose answer has arrived for our actor `id`.
  caf::strong_actor_ptr take(caf::actor_id id, caf::message_id response);

  /// Takes back a request that was not sent after all.
  /// False when it has been answered already.
  bool remove(const caf::strong_actor_ptr& requester, caf::message_id response);

  /// Takes out everything that went out on the connection `token`.
  std::vector<request> take_all(std::uint64_t token);

  /// Takes out what has waited since before `then`.
  std::vector<request> take_before(time_point then);

  std::size_t size() const;

 private:
  struct key {
    caf::actor_id id;
    std::uint64_t response;

    friend bool operator==(const key&, const key&) = default;
  };

  struct key_hash {
    std::size_t operator()(const key& x) const {
      // Ids count up from small numbers; the odd constant (2^64 / golden ratio) spreads them.
      return static_cast<std::size_t>((x.id * 0x9E3779B97F4A7C15U) ^ x.response);
    }
  };

  template <class Predicate>
  std::vector<request> extract_if(Predicate predicate);

  mutable std::mutex mutex_;
  // Actors of third processes may share an id with ours, hence "multi".
  std::unordered_multimap<key, request, key_hash> requests_;
};

} // namespace troupe
