#include "services/troupe/run_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace troupe {

namespace {

namespace fs = std::filesystem;

std::system_error cannot_write(const fs::path& file) {
  return {errno, std::generic_category(), "--run-dir: cannot write " + file.string()};
}

fs::path or_new_folder(fs::path path) {
  if (!path.empty())
    return path;
  std::string pattern = (fs::temp_directory_path() / "troupe-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make a folder for this run");
  return pattern;
}

void write_secret(const fs::path& file) {
  fs::remove(file);
  int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0)
    throw cannot_write(file);
  std::random_device random;
  std::string text;
  constexpr const char* digits = "0123456789abcdef";
  for (int i = 0; i < 64; ++i)
    text += digits[random() & 15U];
  text += '\n';
  ssize_t written = write(fd, text.data(), text.size());
  close(fd);
  if (written != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("--run-dir: cannot write " + file.string());
}

} // namespace

folder_lock::folder_lock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  fs::path file = folder / "lock";
  fd_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0)
    throw cannot_write(file);

  struct flock lock {};

  lock.l_type = F_WRLCK;
  if (fcntl(fd_, F_SETLK, &lock) != 0) {
    close(fd_);
    throw std::runtime_error("--run-dir: another cluster runs in " + folder.string());
  }
}

folder_lock::~folder_lock() {
  close(fd_);
}

run_folder::run_folder(fs::path path) : path_(or_new_folder(std::move(path))), lock_(path_) {
  write_secret(secret());
}

run_folder::~run_folder() {
  std::error_code ignored;
  fs::remove(secret(), ignored);
}

fs::path run_folder::emptied_traces() const {
  fs::path folder = path_ / "trace";
  for (const fs::path& old : traces_in(folder))
    fs::remove(old);
  return folder;
}

std::vector<fs::path> traces_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().extension() == ".trace")
      found.push_back(entry.path());
  return found;
}

} // namespace troupe
