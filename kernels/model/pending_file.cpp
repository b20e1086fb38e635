#include "kernels/model/pending_file.hpp"

#include "kernels/model/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace troupe::model {

namespace {

constexpr const char* temporary_ending = ".tmp";

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

} // namespace

pending_file::pending_file(std::filesystem::path target)
    : target_(std::move(target)),
      temporary_name_(target_.string() + "." + std::to_string(::getpid()) + temporary_ending),
      fd_(::open(folder_of(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644)) {
  if (fd_ < 0) {
    fd_ = ::open(temporary_name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    has_name_ = fd_ >= 0;
  }
  if (fd_ < 0)
    fail();
}

pending_file::~pending_file() {
  if (has_name_)
    ::unlink(temporary_name_.c_str());
  ::close(fd_);
}

void pending_file::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      fail();
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void pending_file::commit() {
  if (::fsync(fd_) != 0)
    fail();
  if (!has_name_) {
    // A link replaces nothing; a rename does.
    ::unlink(temporary_name_.c_str());
    const std::string open_file = "/proc/self/fd/" + std::to_string(fd_);
    if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, temporary_name_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      fail();
    has_name_ = true;
  }
  if (::rename(temporary_name_.c_str(), target_.c_str()) != 0)
    fail();
  has_name_ = false;
  // The name survives a crash too; where a folder cannot be synced, the file is still whole.
  if (const int fd = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

void pending_file::fail() const {
  throw model_error("cannot write " + target_.string() + ": " + std::strerror(errno));
}

void remove_leftovers(const std::filesystem::path& target) {
  std::error_code error;
  const std::string begin = target.filename().string() + ".";
  for (std::filesystem::directory_iterator entry(folder_of(target), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(begin) && name.ends_with(temporary_ending))
      std::filesystem::remove(entry->path(), ignored);
  }
}

} // namespace troupe::model
