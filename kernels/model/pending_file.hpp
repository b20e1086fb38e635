// A small file that appears complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe::model {

/// A file without a name until `commit`, so that an ending process leaves nothing behind. On file systems
/// without such files (NFS) it has a temporary name, which the destructor removes, but not a killed process.
/// For small files: `partial_file` is for those that take minutes.
class pending_file {
 public:
  /// @throws model_error  the folder is not writable
  explicit pending_file(std::filesystem::path target);

  ~pending_file();
  pending_file(const pending_file&) = delete;
  pending_file& operator=(const pending_file&) = delete;

  /// @throws model_error, for example for a full disk
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Syncs the file to disk and gives it its name, replacing an existing one.
  /// @throws model_error
  void commit();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path target_;
  std::string temporary_name_;
  bool has_name_ = false; // the temporary one
  int fd_ = -1;
};

} // namespace troupe::model
