#include "services/startup/stop_signal.hpp"

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>

#include <pthread.h>
#include <unistd.h>

namespace troupe {

namespace {

std::atomic<bool> has_fault{false};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

/// Whoever asks twice does not want a drain.
void end_at_a_second_signal() {
  sigset_t set = stop_signals();
  const auto until = std::chrono::steady_clock::now() + stop_repeat;
  for (auto left = stop_repeat; left.count() > 0;
       left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now())) {
    const timespec patience{0, std::chrono::nanoseconds(left).count()};
    sigtimedwait(&set, nullptr, &patience);
  }
  // From now on one has its default action.
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  while (true)
    pause();
}

} // namespace

stop_signal::stop_signal() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int stop_signal::wait() {
  sigset_t set = stop_signals();
  int received = 0;
  sigwait(&set, &received);
  std::thread(end_at_a_second_signal).detach();
  return received;
}

bool stop_signal::is_pending() noexcept {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

void stop_signal::raise_fault() noexcept {
  // Once: a second signal would end a process that is stopping already, and its exit status would not tell of
  // the fault.
  if (!has_fault.exchange(true))
    kill(getpid(), SIGTERM);
}

int stop_signal::exit_status() noexcept {
  return has_fault ? 1 : 0;
}

} // namespace troupe
