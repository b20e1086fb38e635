#include "kernels/model/pending_file.hpp"

#include "kernels/model/error.hpp"
#include "kernels/model/file_access.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace troupe::model {

namespace {

constexpr const char* temporary_ending = ".tmp";

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
  if (!write_whole(fd_, offset, bytes))
    fail();
}

void pending_file::commit() {
  if (::fsync(fd_) != 0)
    fail();
  if (!has_name_) {
    // A link does not replace a file; a rename does.
    ::unlink(temporary_name_.c_str());
    const std::string open_file = "/proc/self/fd/" + std::to_string(fd_);
    if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, temporary_name_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      fail();
    has_name_ = true;
  }
  if (::rename(temporary_name_.c_str(), target_.c_str()) != 0)
    fail();
  has_name_ = false;
  sync_folder_of(target_);
}

void pending_file::fail() const {
  throw model_error("cannot write " + target_.string() + ": " + std::strerror(errno));
}

} // namespace troupe::model
