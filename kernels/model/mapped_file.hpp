// A file mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe::model {

/// Pages are read when first touched and belong to the page cache, so several processes on one host share
/// them.
///
/// Therefore replace model files by renaming, never by writing into them. If a file is truncated after
/// opening, a later read of the missing pages ends the process (SIGBUS). If it is overwritten, data that was
/// read before may change: reclaimed pages are read again with the new bytes. While weights are loaded both
/// are detected (`populate_pages`, `is_written_to`), afterwards not.
class mapped_file {
 public:
  /// @throws model_error  the file cannot be opened, is empty or is not a regular file
  explicit mapped_file(const std::filesystem::path& path);
  ~mapped_file();
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&&) = delete;
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, num_bytes_}; }

  /// Reads bytes of the file without read-ahead: a few KiB at several places of a large file cost only their
  /// pages. (A fault of the mapping reads ahead by the setting of device or file system, often megabytes.)
  /// @returns false if they are unavailable: the file has been truncated, or its disk fails
  [[nodiscard]] bool read_at(std::uint64_t offset, std::span<std::byte> into) const noexcept;

  /// Starts reading the pages of a part, and nothing around them. A hint before `read_at`: several reads then
  /// run at a time.
  void prefetch_at(std::uint64_t offset, std::size_t num_bytes) const noexcept;

  /// Size and time of modification in nanoseconds at opening, and the inode: as long as they stay the same,
  /// the content has not been changed by ordinary means.
  struct identity {
    std::uint64_t num_bytes = 0;
    std::uint64_t inode = 0;
    std::int64_t modified = 0;
    bool operator==(const identity&) const = default;
  };

  identity id() const noexcept { return {num_bytes_, inode_, modified_}; }

  /// Requests huge pages for all of the file, if its bytes are read repeatedly in place. A hint, given before
  /// the pages are read: the kernel maps a block of 2 MiB as one page if its file system keeps it in one
  /// piece, and only within one request. The first access to a block then reads all of it.
  void advise_huge_pages() const noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Whether the file has fewer bytes than were mapped: reading the last ones gives zeros, or ends the
  /// process. Not detected if the path refers to another file now.
  bool is_cut_short() const noexcept;

  /// Whether the file was written since it was opened, by its time of modification. Not detected if the path
  /// refers to another file now.
  bool is_written_to() const noexcept;

  /// Whether the path refers to another file now: this one has been replaced.
  bool is_replaced() const noexcept;

 private:
  std::filesystem::path path_;
  int fd_ = -1; // for `read_at`, without read-ahead
  const std::byte* data_ = nullptr;
  std::size_t num_bytes_ = 0;
  std::uint64_t device_ = 0; // identifies the file with the inode; neither is reused while it is mapped
  std::uint64_t inode_ = 0;
  std::int64_t modified_ = 0; // nanoseconds, by the file system's clock
};

/// Requests all pages of a part of a mapped file at once; returns when they are present.
/// @returns false if some are unavailable and reading them would end the process: the file has been
/// truncated, or its disk fails. Linux before 5.14 cannot tell, and the result is true
[[nodiscard]] bool populate_pages(std::span<const std::byte> mapped) noexcept;

/// Returns the whole pages of a part of a mapped file, after its content has been copied, to the page cache.
/// Reading it again is correct, only slower.
void release_pages(std::span<const std::byte> mapped) noexcept;

} // namespace troupe::model
