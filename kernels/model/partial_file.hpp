// A large file that is written sequentially, and continued after an interruption.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::model {

/// A file with the name TARGET.partial until `commit`, and a journal of its finished parts, TARGET.journal. A
/// line is added to the journal once its bytes are on the disk, so it is true even after a crash: `kill -9`
/// and a power cut lose what was written since the last line. The last line itself may be incomplete; each
/// has a checksum.
///
/// Only one process may write a target at a time: the caller holds a lock that ends with the process.
class partial_file {
 public:
  /// Opens the existing part of `target`, or begins.
  /// @param what  description of the content, in one line: a journal of anything else is ignored
  /// @throws model_error  the folder is not writable
  partial_file(std::filesystem::path target, const std::string& what);
  ~partial_file();
  partial_file(const partial_file&) = delete;
  partial_file& operator=(const partial_file&) = delete;

  /// The path of the file until `commit`.
  const std::filesystem::path& path() const noexcept { return partial_; }

  /// The lines of the journal, without the first one.
  const std::vector<std::string>& lines() const noexcept { return lines_; }

  /// Bytes written so far.
  std::uint64_t size() const;

  /// Restarts from the beginning, for callers that reject the lines.
  /// @throws model_error
  void restart();

  /// @returns false if the file is shorter
  [[nodiscard]] bool read_at(std::uint64_t offset, std::span<std::byte> into) const;

  /// @throws model_error, for example for a full disk: then nothing is left of the file
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Syncs everything that was written to the disk, then adds these lines to the journal. Lines contain no
  /// line breaks.
  /// @throws as `write_at`
  void note(std::span<const std::string> lines);

  /// Syncs everything to the disk and renames the file to the target, replacing an existing one.
  /// @throws as `write_at`
  void commit();

 private:
  void write(int fd, std::uint64_t offset, std::span<const std::byte> bytes);
  void read_journal();
  [[noreturn]] void fail();

  std::filesystem::path target_;
  std::filesystem::path partial_;
  std::filesystem::path journal_;
  std::string head_; // the journal's first line
  std::vector<std::string> lines_;
  std::uint64_t journal_end_ = 0;
  int fd_ = -1;
  int journal_fd_ = -1;
};

/// Suffixes of the two files.
inline constexpr const char* partial_ending = ".partial";
inline constexpr const char* journal_ending = ".journal";

} // namespace troupe::model
