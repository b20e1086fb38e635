#include "actors/state/durable_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace troupe {

namespace {

constexpr auto unfinished = ".new-"; ///< suffix, followed by six letters

std::string system_message(const std::string& what, const std::string& path) {
  return what + " '" + path + "': " + std::generic_category().message(errno);
}

/// Owns a file descriptor within a scope.
class file_descriptor {
 public:
  /// @param fd  negative: it could not be opened, and errno has the reason
  file_descriptor(int fd, std::string path) : path_(std::move(path)), fd_(fd) {
    if (fd_ < 0)
      throw std::runtime_error(system_message("cannot open", path_));
  }

  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;

  ~file_descriptor() { ::close(fd_); }

  void write_all(const std::string& content) const {
    for (std::size_t done = 0; done < content.size();) {
      auto written = ::write(fd_, content.data() + done, content.size() - done);
      if (written < 0 && errno != EINTR)
        throw std::runtime_error(system_message("cannot write", path_));
      done += written < 0 ? 0 : static_cast<std::size_t>(written);
    }
  }

  void sync() const {
    if (::fsync(fd_) != 0)
      throw std::runtime_error(system_message("cannot sync", path_));
  }

 private:
  std::string path_;
  int fd_;
};

} // namespace

std::uint64_t checksum_of(std::string_view content) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (auto c : content)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    if (!std::filesystem::exists(path))
      return std::nullopt;
    throw std::runtime_error("cannot be read");
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void replace_file(const std::string& path, const std::string& content) {
  auto temporary = path + unfinished + "XXXXXX";
  try {
    const file_descriptor file(mkostemp(temporary.data(), O_CLOEXEC), temporary);
    file.write_all(content);
    file.sync();
    if (std::rename(temporary.c_str(), path.c_str()) != 0)
      throw std::runtime_error(system_message("cannot replace", path));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  auto directory = std::filesystem::path(path).parent_path().string();
  if (directory.empty())
    directory = ".";
  file_descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), directory).sync();
}

void remove_unfinished(const std::string& path) {
  const std::filesystem::path whole{path};
  const auto beginning = whole.filename().string() + unfinished;
  const auto directory = whole.has_parent_path() ? whole.parent_path() : std::filesystem::path{"."};
  std::error_code ignored; // a leftover file does no harm
  for (const auto& entry : std::filesystem::directory_iterator{directory, ignored})
    if (entry.path().filename().string().starts_with(beginning))
      std::filesystem::remove(entry.path(), ignored);
}

} // namespace troupe
