#include "kernels/model/weights_cache.hpp"

#include "kernels/arithmetic_revision.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace troupe::model {

namespace {

/// Held while one process writes an entry of the cache; ends with the process. Waiting processes poll and
/// have no deadline: writing may take long, and only a wait outside the kernel can be cancelled
/// (`cache_options::waiting`).
class file_lock {
 public:
  /// @param waiting  called while another process has it, with whether it is the first call
  template <class Waiting>
  file_lock(const std::filesystem::path& path, const Waiting& waiting)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0)
      throw model_error("cannot lock " + path.string() + ": " + std::strerror(errno));
    try {
      for (bool first = true; ::flock(fd_, LOCK_EX | LOCK_NB) != 0; first = false) {
        if (errno != EWOULDBLOCK && errno != EINTR)
          throw model_error("cannot lock " + path.string() + ": " + std::strerror(errno));
        waiting(first);
        std::this_thread::sleep_for(std::chrono::milliseconds{100});
      }
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }

  ~file_lock() { ::close(fd_); }

  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

 private:
  int fd_;
};

/// The file, or null if it is missing or must be written again.
std::shared_ptr<const packed_source> find(const std::filesystem::path& file, const checkpoint_source& source,
                                          weight_memory memory) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored))
    return nullptr;
  try {
    auto packed =
        packed_source::open(file, source.config(), source.quant().rows, memory, damaged_file::removed);
    // Its name has all of this, but the file may have been renamed.
    if (packed->fingerprint() == source.fingerprint() && packed->type() == source.type()
        && packed->quant().stored_name() == source.quant().stored_name())
      return packed;
  } catch (const model_error&) {
    // Damaged, or of another version: it will be written again.
  }
  return nullptr;
}

} // namespace

std::shared_ptr<const cpu_weights> open_cached(const checkpoint_source& source, weight_memory memory,
                                               const cache_options& options) {
  const auto file =
      options.folder
      / (source.fingerprint() + "-" + kernels::name_of(source.type()) + "-" + source.quant().stored_name()
         + (source.coding() == weight_coding::none ? "" : "-coded") + "-r"
         + std::to_string(kernels::arithmetic_revision) + ".troupe");
  if (auto found = find(file, source, memory))
    return found;
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error)
    throw model_error("cannot make the cache folder " + options.folder.string() + ": " + error.message());
  const file_lock lock(file.string() + ".lock", [&](bool first) {
    if (options.waiting)
      options.waiting(file, first);
  });
  if (auto found = find(file, source, memory)) // written by another process meanwhile
    return found;
  write_packed(source, file, options.threads, options.progress);
  return packed_source::open(file, source.config(), source.quant().rows, memory, damaged_file::removed);
}

} // namespace troupe::model
