// The activation history on disk, for a restarted scheduler.
#pragma once

#include <optional>
#include <string>

#include "actors/history/activation_history.hpp"

namespace troupe {

/// "troupe-history 2\n", then numbers of eight bytes, the lowest first, and texts as their length and bytes,
/// in the order of `stored_history`; then an FNV-1a checksum of all that. Decayed rows are the bits of their
/// numbers, so that what comes back is the same.
std::string render(const stored_history& history);

/// @errors throws `std::runtime_error`: damaged, or not what `render` writes
stored_history parse_stored_history(const std::string& content);

/// The file `history` in a directory. Blocks: not for actors of the pool.
class history_store {
 public:
  /// Makes the directory where it is missing.
  /// @errors throws `std::runtime_error` when it cannot be written
  explicit history_store(const std::string& directory);

  const std::string& path() const { return path_; }

  /// @returns nothing when there is no such file
  /// @errors throws `std::runtime_error` for one that cannot be used, `later_format` for one of a later
  /// version
  std::optional<stored_history> load() const;

  /// @errors throws `std::runtime_error`
  void save(const stored_history& history) const;

  /// Moves the file to `history.unused`, so that the next one does not replace it.
  /// @errors throws `std::runtime_error`
  void set_aside() const;

 private:
  std::string path_;
};

} // namespace troupe
