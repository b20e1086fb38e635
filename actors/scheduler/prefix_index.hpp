// Which attention worker has the keys of which beginnings. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "actors/protocol/ids.hpp"
#include "actors/protocol/prefix_hash.hpp"

namespace troupe {

/// Landmarks (see `prefix_landmark`) by worker: those that a worker has reported, and those of the requests
/// that have a place there and are being computed. It may be wrong, since a worker evicts what it has
/// reported; then a request computes more than was expected, and nothing else happens.
class prefix_index {
 public:
  /// Tokens of a prompt, from its beginning.
  struct match {
    std::uint32_t known = 0;  ///< whose keys the worker has, or computes now
    std::uint32_t shared = 0; ///< of them, those that a request with a place there holds
    bool operator==(const match&) const = default;
  };

  /// Replaces what the worker has reported.
  void report(worker_id worker, std::vector<std::uint64_t> hashes);

  /// The request has a place at the worker.
  void hold(request_id request, worker_id worker, const std::vector<prefix_landmark>& landmarks);

  /// The request has no place any more. The worker counts as having what it held until its next report.
  void release(request_id request);

  void remove(worker_id worker);

  /// The workers that know at least the first one of these landmarks.
  std::map<worker_id, match> find(const std::vector<prefix_landmark>& landmarks) const;

 private:
  struct presence {
    bool is_reported = false;
    std::uint32_t holders = 0;
  };

  struct held {
    worker_id worker;
    std::vector<std::uint64_t> hashes;
  };

  template <class Change>
  void change(std::uint64_t hash, worker_id worker, Change apply);

  std::unordered_map<std::uint64_t, std::map<worker_id, presence>> workers_;
  std::map<worker_id, std::vector<std::uint64_t>> reported_; ///< each sorted
  std::map<request_id, held> held_;
};

} // namespace troupe
