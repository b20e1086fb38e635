// What a scheduler leaves behind for its successor: its term, the model and the placement, in a directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/scheduler/model_identity.hpp"

namespace troupe {

struct stored_cluster {
  model_identity identity;
  placement experts;
  std::vector<worker_address> workers; ///< all but gateways
  /// Millionths of the requests that an operator wants traced; nothing: none has said so.
  std::optional<uint32_t> traced_ppm{};
  bool operator==(const stored_cluster&) const = default;
};

/// Text with a checksum, one fact a line, for people to read.
std::string render(const stored_cluster& cluster);

/// @errors throws `std::runtime_error` that names the line at fault
stored_cluster parse_stored_cluster(const std::string& text);

/// The files `term` and `placement` in a directory; leases, from which terms are taken, are in
/// scheduler_lease.hpp. Every change is written beside, synced and renamed, so that a reader finds the old or
/// the new content whatever happens. Blocks: not for actors of the pool.
class cluster_store {
 public:
  /// Makes the directory where it is missing.
  /// @errors throws `std::runtime_error` when it cannot be written
  explicit cluster_store(std::string directory);

  struct recovered {
    uint64_t term = 0; ///< the newest that is known; 0: none
    std::optional<stored_cluster> cluster;
    std::vector<std::string> problems; ///< one sentence for each file that cannot be used
  };

  /// Reads what is there. A damaged file is a problem that is told, not an error.
  /// @errors throws `later_format` for a file of a later version of the program
  recovered load() const;

  /// @errors throws `std::runtime_error`
  void save_term(uint64_t term) const;

  /// @errors throws `std::runtime_error`
  void save(const stored_cluster& cluster) const;

  const std::string& directory() const { return directory_; }

 private:
  void replace(const std::string& name, const std::string& content) const;

  std::string directory_;
};

} // namespace troupe
