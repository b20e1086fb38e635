#include "services/startup/reload_signal.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <utility>

#include <sys/stat.h>
#include <time.h>

namespace troupe {

namespace {

sigset_t reload_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
}

// Which file it is and when it was last changed; empty where there is none.
std::string stamp(const std::filesystem::path& file) {
  struct stat found {};

  if (stat(file.c_str(), &found) != 0)
    return {};
  return std::to_string(found.st_dev) + ' ' + std::to_string(found.st_ino) + ' '
         + std::to_string(found.st_size) + ' ' + std::to_string(found.st_ctim.tv_sec) + '.'
         + std::to_string(found.st_ctim.tv_nsec);
}

// What sigtimedwait() gives once `interval` has passed: -1.
int wait_for(const sigset_t& set, std::chrono::milliseconds interval) {
  if (interval.count() == 0)
    return sigwaitinfo(&set, nullptr);
  const timespec longest{.tv_sec = interval.count() / 1000, .tv_nsec = interval.count() % 1000 * 1000000};
  return sigtimedwait(&set, nullptr, &longest);
}

} // namespace

reload_signal::reload_signal(process_log log) : log_(std::move(log)) {
  sigset_t set = reload_signals();
  pthread_sigmask(SIG_BLOCK, &set, &previous_mask_);
  thread_ = std::thread([this] { wait_for_signals(); });
}

reload_signal::~reload_signal() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGHUP);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

reload_signal::registration reload_signal::add(std::function<void()> again) {
  const std::lock_guard lock(mutex_);
  auto at = callbacks_.insert(callbacks_.end(), std::move(again));
  return {static_cast<void*>(&*at), [this, at](void*) {
            const std::lock_guard removing(mutex_);
            callbacks_.erase(at);
          }};
}

void reload_signal::tell(std::function<void(bool good)> told) {
  const std::lock_guard lock(mutex_);
  told_ = std::move(told);
}

std::vector<reload_signal::watched_file>
reload_signal::look_at(const std::vector<std::filesystem::path>& files) {
  std::vector<watched_file> result;
  for (const auto& file : files)
    result.push_back({file, stamp(file)});
  return result;
}

void reload_signal::watch(std::vector<watched_file> files, std::chrono::milliseconds interval) {
  {
    const std::lock_guard lock(mutex_);
    std::move(files.begin(), files.end(), std::back_inserter(files_));
    interval_ = files_.empty() ? std::chrono::milliseconds{0} : interval;
  }
  begins_to_watch_ = true;
  pthread_kill(thread_.native_handle(), SIGHUP);
}

bool reload_signal::files_changed() {
  const std::lock_guard lock(mutex_);
  bool changed = false;
  for (auto& file : files_) {
    auto now = stamp(file.path);
    changed = changed || now != file.stamp;
    file.stamp = std::move(now);
  }
  return changed;
}

void reload_signal::wait_for_signals() {
  const sigset_t set = reload_signals();
  std::chrono::milliseconds interval{0};
  for (;;) {
    const int received = wait_for(set, interval);
    if (stopping_)
      return;
    if (begins_to_watch_.exchange(false)) {
      const std::lock_guard lock(mutex_);
      interval = interval_;
    } else if (received == SIGHUP) {
      log_.line("reload", "SIGHUP: reading again what may change");
      call_all();
    } else if (errno == EAGAIN && files_changed()) {
      log_.line("reload", "a file has changed: reading again what may change");
      call_all();
    }
  }
}

void reload_signal::call_all() {
  const std::lock_guard lock(mutex_);
  bool good = true;
  for (const auto& again : callbacks_) {
    try {
      again();
    } catch (const std::exception& error) {
      log_.line("reload-failed", error.what());
      good = false;
    }
  }
  if (told_)
    told_(good);
}

} // namespace troupe
