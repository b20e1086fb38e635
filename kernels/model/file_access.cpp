#include "kernels/model/file_access.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace troupe::model {

namespace {

/// Calls pread or pwrite until `bytes` is through.
template <class Byte, class Call>
bool transfer(int fd, std::uint64_t offset, std::span<Byte> bytes, const Call& call) noexcept {
  while (!bytes.empty()) {
    const auto count = call(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

} // namespace

bool read_whole(int fd, std::uint64_t offset, std::span<std::byte> into) noexcept {
  return transfer(fd, offset, into, ::pread);
}

bool write_whole(int fd, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  return transfer(fd, offset, bytes, ::pwrite);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

void sync_folder_of(const std::filesystem::path& file) noexcept {
  if (const int fd = ::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
    ::fsync(fd);
    ::close(fd);
  }
}

} // namespace troupe::model
