#include "actors/durable_file.hpp"

#include <cerrno>
#include <cstdio>
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

std::string system_message(const std::string& what, const std::string& path) {
  return what + " '" + path + "': " + std::generic_category().message(errno);
}

/// Owns a file descriptor for the length of a scope.
class file_descriptor {
 public:
  file_descriptor(const std::string& path, int flags) : path_(path), fd_(::open(path.c_str(), flags, 0644)) {
    if (fd_ < 0)
      throw std::runtime_error(system_message("cannot open", path));
  }

  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;

  ~file_descriptor() { ::close(fd_); }

  void write_all(const std::string& content) const {
    for (size_t done = 0; done < content.size();) {
      auto written = ::write(fd_, content.data() + done, content.size() - done);
      if (written < 0 && errno != EINTR)
        throw std::runtime_error(system_message("cannot write", path_));
      done += written < 0 ? 0 : static_cast<size_t>(written);
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

uint64_t checksum_of(std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325U;
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
  auto temporary = path + ".new";
  {
    file_descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    file.write_all(content);
    file.sync();
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    throw std::runtime_error(system_message("cannot replace", path));
  auto directory = std::filesystem::path(path).parent_path().string();
  file_descriptor(directory.empty() ? "." : directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync();
}

} // namespace troupe
