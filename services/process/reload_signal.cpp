#include "services/process/reload_signal.hpp"

#include <exception>
#include <utility>

namespace troupe {

namespace {

sigset_t reload_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
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

void reload_signal::wait_for_signals() {
  sigset_t set = reload_signals();
  for (;;) {
    int received = 0;
    sigwait(&set, &received);
    if (stopping_) {
      return;
    }
    log_.line("reload", "SIGHUP: reading again what may change");
    call_all();
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
  if (told_) {
    told_(good);
  }
}

} // namespace troupe
