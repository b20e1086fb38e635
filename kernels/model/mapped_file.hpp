#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace troupe::model {

/// A whole file mapped read-only. Pages are read when first touched and belong to the page cache, so several
/// processes on one host share them.
///
/// So replace model files by renaming, never by writing into them. A file that is cut short after it was
/// opened makes a later read of the missing pages end the process (SIGBUS), and one that is written to may
/// change what was read before: pages that the system has taken back come with the new bytes. While weights
/// are loaded both are errors (`populate_pages`, `is_written_to`); afterwards nobody looks.
class mapped_file {
 public:
  /// @errors  model_error when the file cannot be opened, is empty or is not a regular file
  explicit mapped_file(const std::filesystem::path& path);
  ~mapped_file();
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&&) = delete;
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  std::span<const std::byte> bytes() const noexcept { return {data_, num_bytes_}; }

  /// Asks for huge pages in all of the file, for one whose bytes are read again and again where they lie. A
  /// hint, given before the pages are read: the kernel maps a block of 2 MiB as one page where its file
  /// system keeps it in one piece, and only inside of what was asked for at once. Any first look at a block
  /// then reads all of it.
  void advise_huge_pages() const noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Whether the file has fewer bytes than were mapped: reading the last ones gives zeros, or ends the
  /// process. It is not seen where the path names another file by now.
  bool is_cut_short() const noexcept;

  /// Whether the file has been written to since it was opened, as its time of modification tells. It is not
  /// seen where the path names another file by now.
  bool is_written_to() const noexcept;

  /// Whether the path names another file by now: somebody has put one in the place of this one.
  bool is_replaced() const noexcept;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t num_bytes_ = 0;
  std::uint64_t device_ = 0; // this and the inode are the file; nobody gets them while it is mapped
  std::uint64_t inode_ = 0;
  std::int64_t modified_ = 0; // nanoseconds, by the file system's clock
};

/// Asks for the pages of a part of a mapped file, all at once; returns when they are there.
/// @returns false when some of them cannot be had, so that reading them would end the process: the file has
///          been cut short, or its disk fails. Linux before 5.14 cannot tell, and it is always true.
[[nodiscard]] bool populate_pages(std::span<const std::byte> mapped) noexcept;

/// The same for a few bytes of a large part, and without asking for huge pages: the kernel cuts a mapping in
/// two wherever that is asked for, and a process may have 65,530 mappings.
[[nodiscard]] bool populate_sample(std::span<const std::byte> mapped) noexcept;

/// Gives the whole pages of a part of a mapped file back to the page cache: its content has been copied.
/// Reading it again is correct and only slower.
void release_pages(std::span<const std::byte> mapped) noexcept;

} // namespace troupe::model
