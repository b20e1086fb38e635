#include "kernels/model/mapped_file.hpp"

#include "kernels/model/error.hpp"
#include "kernels/model/file_access.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::model {

namespace {

struct descriptor {
  int fd;

  ~descriptor() {
    if (fd >= 0)
      ::close(fd);
  }

  int release() { return std::exchange(fd, -1); }
};

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw model_error(path.string() + ": " + std::strerror(errno));
}

std::int64_t time_of(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

/// The pages of a part of a mapped file.
std::span<std::byte> pages_of(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Bytes of the first page before the part.
  const auto before = reinterpret_cast<std::uintptr_t>(mapped.data()) % page;
  // madvise rounds up to whole pages.
  return {const_cast<std::byte*>(mapped.data()) - before, before + mapped.size()};
}

} // namespace

mapped_file::mapped_file(const std::filesystem::path& path) : path_(path) {
  // Non-blocking, so that a FIFO in place of a file is refused instead of waited for.
  descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};

  struct stat status {};

  if (file.fd < 0 || ::fstat(file.fd, &status) != 0)
    fail(path);
  if (!S_ISREG(status.st_mode))
    throw model_error(path.string() + ": not a regular file");
  if (status.st_size == 0)
    throw model_error(path.string() + ": empty file");
  num_bytes_ = static_cast<std::size_t>(status.st_size);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  modified_ = time_of(status);
  auto* mapped = ::mmap(nullptr, num_bytes_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapped == MAP_FAILED)
    fail(path);
  data_ = static_cast<const std::byte*>(mapped);
  // For reads through the descriptor; faults of the mapping follow madvise.
  ::posix_fadvise(file.fd, 0, 0, POSIX_FADV_RANDOM);
  fd_ = file.release();
}

mapped_file::mapped_file(mapped_file&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      num_bytes_(std::exchange(other.num_bytes_, 0)),
      device_(other.device_),
      inode_(other.inode_),
      modified_(other.modified_) {}

mapped_file::~mapped_file() {
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), num_bytes_);
  if (fd_ >= 0)
    ::close(fd_);
}

bool mapped_file::read_at(std::uint64_t offset, std::span<std::byte> into) const noexcept {
  return read_whole(fd_, offset, into);
}

void mapped_file::prefetch_at(std::uint64_t offset, std::size_t num_bytes) const noexcept {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(num_bytes), POSIX_FADV_WILLNEED);
}

void mapped_file::advise_huge_pages() const noexcept {
  ::madvise(const_cast<std::byte*>(data_), num_bytes_, MADV_HUGEPAGE);
}

bool mapped_file::is_replaced() const noexcept {
  struct stat status {};

  return ::stat(path_.c_str(), &status) == 0 && (status.st_dev != device_ || status.st_ino != inode_);
}

bool mapped_file::is_cut_short() const noexcept {
  struct stat status {};

  return ::stat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_
         && static_cast<std::size_t>(status.st_size) < num_bytes_;
}

bool mapped_file::is_written_to() const noexcept {
  struct stat status {};

  return ::stat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_
         && time_of(status) != modified_;
}

bool populate_pages(std::span<const std::byte> mapped) noexcept {
  const auto pages = pages_of(mapped);
  ::madvise(pages.data(), pages.size(), MADV_HUGEPAGE); // a hint: few file systems have huge pages
  // A hint: an older kernel reads the pages when they are touched.
#ifdef MADV_POPULATE_READ
  // Only these two errors mean that touching a page would cause SIGBUS; after any other the page can be read
  // on demand.
  return ::madvise(pages.data(), pages.size(), MADV_POPULATE_READ) == 0
         || (errno != EFAULT && errno != EHWPOISON);
#else
  ::madvise(pages.data(), pages.size(), MADV_WILLNEED);
  return true;
#endif
}

void release_pages(std::span<const std::byte> mapped) noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Whole pages only: the first and the last one may hold other data in use.
  const auto skipped = (page - reinterpret_cast<std::uintptr_t>(mapped.data()) % page) % page;
  if (mapped.size() < skipped + page)
    return;
  // A hint: if it fails, the pages merely stay.
  ::madvise(const_cast<std::byte*>(mapped.data()) + skipped, (mapped.size() - skipped) / page * page,
            MADV_DONTNEED);
}

} // namespace troupe::model
