// Saves the activation history to disk, for a restarted scheduler.
#pragma once

#include <optional>
#include <string>

#include "actors/history/activation_history.hpp"

namespace troupe {

/// Format: "troupe-history 2\n", then the fields of `stored_history` in order, numbers as eight bytes (little
/// endian) and texts as length and bytes; then an FNV-1a checksum of all that. Decayed rows are stored bit
/// for bit.
std::string render(const stored_history& history);

/// @throws std::runtime_error  damaged, or not the format of `render`
stored_history parse_stored_history(const std::string& content);

/// The file `history` in a directory. Blocks: not for actors of the pool.
class history_store {
 public:
  /// Creates the directory if it is missing.
  /// @throws std::runtime_error  it is not writable
  explicit history_store(const std::string& directory);

  const std::string& path() const { return path_; }

  /// @returns empty if there is no such file
  /// @throws std::runtime_error  it is unusable
  /// @throws later_format  a later version wrote it
  std::optional<stored_history> load() const;

  /// @throws std::runtime_error
  void save(const stored_history& history) const;

  /// Renames the file to `history.unused`, so that the next save does not replace it.
  /// @throws std::runtime_error
  void set_aside() const;

 private:
  std::string path_;
};

} // namespace troupe
