// A file that is there whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe::model {

/// A file without a name until `commit`, so that nothing is left of it where that never comes, whatever ends
/// the process. On file systems that have no such files (NFS) it has a temporary name, which goes with the
/// object; `remove_leftovers` finds what a killed process left.
class pending_file {
 public:
  /// @errors  model_error: the folder cannot be written to
  explicit pending_file(std::filesystem::path target);

  ~pending_file();
  pending_file(const pending_file&) = delete;
  pending_file& operator=(const pending_file&) = delete;

  /// @errors  model_error, for a full disk among others
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Writes everything to disk and gives the file its name, in place of what had it before.
  /// @errors  model_error
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path target_;
  std::string temporary_name_;
  bool has_name_ = false; // the temporary one
  int fd_ = -1;
};

/// Removes what processes that were killed left of `target` under temporary names. Whoever calls it knows
/// that nobody writes there.
void remove_leftovers(const std::filesystem::path& target);

} // namespace troupe::model
