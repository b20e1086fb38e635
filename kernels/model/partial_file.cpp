#include "kernels/model/partial_file.hpp"

#include "kernels/model/error.hpp"
#include "kernels/model/file_access.hpp"
#include "kernels/model/hex.hpp"
#include "kernels/model/packed_format.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::model {

namespace {

constexpr std::size_t most_journal_bytes = std::size_t{256} << 20; // as an index
constexpr std::size_t line_digits = 16;

/// A line of the journal: its checksum, a space, the text.
std::string journal_line(std::string_view text) {
  return hex_of(checksum_of(text)).append(" ").append(text).append("\n");
}

std::uint64_t size_of(int fd) {
  struct stat status {};

  return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

} // namespace

partial_file::partial_file(std::filesystem::path target, const std::string& what)
    : target_(std::move(target)),
      partial_(target_.string() + partial_ending),
      journal_(target_.string() + journal_ending),
      head_(journal_line("troupe-journal 1 " + what)),
      fd_(::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ >= 0)
    journal_fd_ = ::open(journal_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (journal_fd_ < 0) {
    const std::string message = "cannot write " + target_.string() + ": " + std::strerror(errno);
    if (fd_ >= 0)
      ::close(fd_);
    throw model_error(message);
  }
  try {
    read_journal();
  } catch (...) {
    ::close(fd_);
    ::close(journal_fd_);
    throw;
  }
}

partial_file::~partial_file() {
  ::close(fd_);
  ::close(journal_fd_);
}

void partial_file::read_journal() {
  std::string text(size_of(journal_fd_), '\0');
  const auto count =
      text.size() > most_journal_bytes ? -1 : ::pread(journal_fd_, text.data(), text.size(), 0);
  if (count != static_cast<ssize_t>(text.size()) || !text.starts_with(head_)) {
    restart();
    return;
  }
  std::size_t at = head_.size();
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const auto line = std::string_view{text}.substr(at, end - at);
    if (line.size() <= line_digits || journal_line(line.substr(line_digits + 1)) != std::string{line} + "\n")
      break;
    lines_.emplace_back(line.substr(line_digits + 1));
  }
  journal_end_ = at; // an incomplete line after it is overwritten
  if (::ftruncate(journal_fd_, static_cast<off_t>(journal_end_)) != 0)
    fail();
}

std::uint64_t partial_file::size() const {
  return size_of(fd_);
}

void partial_file::restart() {
  lines_.clear();
  // The journal first: it must never list missing bytes.
  if (::ftruncate(journal_fd_, 0) != 0 || ::fsync(journal_fd_) != 0 || ::ftruncate(fd_, 0) != 0)
    fail();
  const auto head = std::as_bytes(std::span{head_});
  write(journal_fd_, 0, head);
  journal_end_ = head.size();
  sync_folder_of(target_);
}

bool partial_file::read_at(std::uint64_t offset, std::span<std::byte> into) const {
  return read_whole(fd_, offset, into);
}

void partial_file::write(int fd, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!write_whole(fd, offset, bytes))
    fail();
}

void partial_file::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  write(fd_, offset, bytes);
}

void partial_file::note(std::span<const std::string> lines) {
  if (lines.empty())
    return;
  if (::fdatasync(fd_) != 0)
    fail();
  std::string text;
  for (const auto& line : lines)
    text += journal_line(line);
  write(journal_fd_, journal_end_, std::as_bytes(std::span{text}));
  journal_end_ += text.size();
  if (::fdatasync(journal_fd_) != 0)
    fail();
}

void partial_file::commit() {
  if (::fsync(fd_) != 0 || ::rename(partial_.c_str(), target_.c_str()) != 0)
    fail();
  // The name of the file first: a journal without its file has no effect, and the next one overwrites it.
  sync_folder_of(target_);
  ::unlink(journal_.c_str());
}

void partial_file::fail() {
  std::string message = "cannot write " + target_.string() + ": " + std::strerror(errno);
  // An unusable file must not keep a disk full.
  ::unlink(partial_.c_str());
  ::unlink(journal_.c_str());
  throw model_error(message);
}

} // namespace troupe::model
