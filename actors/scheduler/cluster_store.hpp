// What a scheduler leaves to its successor in a directory: its term, the model and the placement.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/scheduler/model_identity.hpp"

namespace troupe {

struct stored_cluster {
  model_identity identity;
  placement experts;
  std::vector<worker_address> workers; ///< all but gateways
  /// Millionths of the requests that an operator wants traced; empty: no command was given.
  std::optional<std::uint32_t> traced_ppm{};
  bool operator==(const stored_cluster&) const = default;
};

/// What is saved of a published view. It says nothing of traces.
stored_cluster stored_of(const model_identity& identity, const cluster_view& view);

/// Text with a checksum, one fact per line, readable for people.
std::string render(const stored_cluster& cluster);

/// @throws std::runtime_error  which names the line at fault
stored_cluster parse_stored_cluster(const std::string& text);

/// The files `term` and `placement` in a directory; leases, from which terms are taken, are in
/// scheduler_lease.hpp. Every change is written beside, synced and renamed, so that a reader finds the old or
/// the new content whatever happens. Blocks: not for actors of the pool.
class cluster_store {
 public:
  /// Makes the directory where it is missing.
  /// @throws std::runtime_error  when it cannot be written
  explicit cluster_store(std::string directory);

  struct recovered {
    std::uint64_t term = 0; ///< the newest that is known; 0: none
    std::optional<stored_cluster> cluster;
    std::vector<std::string> problems; ///< one sentence for each file that cannot be used
  };

  /// Reads the files. A damaged file is reported as a problem, not as an error.
  /// @throws later_format  for a file of a later version of the program
  recovered load() const;

  /// @throws std::runtime_error
  void save_term(std::uint64_t term) const;

  /// @throws std::runtime_error
  void save(const stored_cluster& cluster) const;

  const std::string& directory() const { return directory_; }

 private:
  void replace(const std::string& name, const std::string& content) const;

  std::string directory_;
};

} // namespace troupe
