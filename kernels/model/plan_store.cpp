#include "kernels/model/plan_store.hpp"

#include "kernels/arithmetic_revision.hpp"
#include "kernels/error.hpp"
#include "kernels/model/error.hpp"
#include "kernels/model/hex.hpp"
#include "kernels/model/pending_file.hpp"
#include "kernels/plan_text.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <span>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace troupe::model {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = std::size_t{256} << 10;
constexpr const char* identity_line = "# for: ";

/// Reads the text of a small regular file.
/// @throws model_error
std::string read_small_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    throw model_error(path.string() + ": " + std::strerror(errno));
  std::string text;

  struct stat status {};

  bool is_read = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  while (is_read && text.size() <= most_bytes) {
    char part[4096];
    const auto count = ::read(fd, part, sizeof part);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      is_read = count == 0;
      break;
    }
    text.append(part, static_cast<std::size_t>(count));
  }
  ::close(fd);
  if (!is_read)
    throw model_error(path.string() + ": not a regular file that can be read");
  if (text.size() > most_bytes)
    throw model_error(path.string() + ": larger than a plan can be");
  return text;
}

kernels::kernel_plan plan_of(const std::string& text, const fs::path& file) {
  try {
    return kernels::plan_from_text(text);
  } catch (const kernels::kernel_error& error) {
    throw model_error(file.string() + ": " + error.what());
  }
}

void write_text(const fs::path& file, const std::string& text) {
  pending_file pending(file);
  pending.write_at(0, std::as_bytes(std::span{text}));
  pending.commit();
}

/// FNV-1a, for a file's name.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hex_of(hash);
}

/// Held during a measurement; ends with the process.
class measuring_lock {
 public:
  /// @throws model_error  the folder is not writable
  explicit measuring_lock(const fs::path& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {
    if (fd_ < 0)
      throw model_error("cannot lock " + path.string() + ": " + std::strerror(errno));
  }

  ~measuring_lock() { ::close(fd_); }

  measuring_lock(const measuring_lock&) = delete;
  measuring_lock& operator=(const measuring_lock&) = delete;

  /// Tries until `deadline`; returns whether it has the lock.
  bool take(std::chrono::steady_clock::time_point deadline) const {
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (std::chrono::steady_clock::now() >= deadline)
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{20}); // flock has no deadline
    }
    return true;
  }

 private:
  int fd_;
};

} // namespace

std::string plan_identity::text() const {
  return "processor " + processor + "; sets " + sets + "; threads " + std::to_string(threads) + "; weights "
         + shapes + "; build " + kernel_build_id() + "; arithmetic "
         + std::to_string(kernels::arithmetic_revision);
}

std::string processor_identity() {
  constexpr std::string_view wanted[] = {"vendor_id",       "model name", "cpu family",
                                         "model",           "stepping",   "microcode",
                                         "CPU implementer", "CPU part",   "CPU revision"};
  std::ifstream file("/proc/cpuinfo");
  std::string found;
  for (std::string line; std::getline(file, line) && !line.empty();) { // the first processor
    const auto colon = line.find(':');
    const auto name = line.substr(0, line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1) + 1);
    for (const auto field : wanted)
      if (colon != std::string::npos && name == field)
        found += (found.empty() ? "" : ", ") + line.substr(std::min(colon + 2, line.size()));
  }
  return found.empty() ? "unknown" : found;
}

std::optional<fs::path> user_cache_folder() {
  // The user's choice of these, as for every other program.
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && fs::path(folder).is_absolute())
    return fs::path(folder) / "troupe";
  if (const char* home = std::getenv("HOME"); home != nullptr && fs::path(home).is_absolute())
    return fs::path(home) / ".cache" / "troupe";
  return std::nullopt;
}

fs::path plan_store::file() const {
  return folder / ("kernel-plan-" + hash_of(identity.text()) + ".txt");
}

std::optional<kernels::kernel_plan> plan_store::find() const {
  std::error_code ignored;
  const auto path = file();
  if (!fs::exists(path, ignored))
    return std::nullopt;
  try {
    const auto text = read_small_file(path);
    const auto second = text.find('\n') + 1; // 0: there is none, and the first line will not match
    if (text.compare(second, text.find('\n', second) - second, identity_line + identity.text()) != 0)
      throw model_error(path.string() + ": for another machine, model or build");
    return plan_of(text, path);
  } catch (const model_error& error) {
    tell("kernel-plan-ignored", error.what());
    return std::nullopt;
  }
}

void plan_store::keep(const kernels::kernel_plan& plan) const {
  try {
    std::error_code error;
    fs::create_directories(folder, error); // a later write reports the error
    auto text = kernels::text_of(plan);
    text.insert(text.find('\n') + 1, identity_line + identity.text() + "\n");
    write_text(file(), text);
    tell("kernel-plan-kept", file().string());
  } catch (const model_error& error) {
    tell("kernel-plan-not-kept", error.what());
  }
}

std::optional<kernels::kernel_plan>
plan_store::find_or_measure(const std::function<std::optional<kernels::kernel_plan>()>& measure) const {
  if (auto found = find())
    return found;
  std::optional<measuring_lock> lock;
  try {
    std::error_code error;
    fs::create_directories(folder, error);
    lock.emplace(folder / "kernel-plan.lock");
  } catch (const model_error& error) {
    tell("kernel-plan-not-kept", error.what());
    return measure();
  }
  if (!lock->take(std::chrono::steady_clock::now())) {
    tell("kernel-plan-awaited", "another process measures its kernels");
    if (!lock->take(std::chrono::steady_clock::now() + patience)) {
      tell("kernel-plan-default", "another process still measures; this one takes the default plan");
      return std::nullopt;
    }
    if (std::error_code ignored; fs::exists(file(), ignored))
      if (auto found = find())
        return found;
  }
  auto measured = measure();
  if (measured)
    keep(*measured);
  return measured;
}

kernels::kernel_plan read_plan(const fs::path& file) {
  return plan_of(read_small_file(file), file);
}

void write_plan(const fs::path& file, const kernels::kernel_plan& plan) {
  write_text(file, kernels::text_of(plan));
}

} // namespace troupe::model
