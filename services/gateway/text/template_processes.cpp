#include "services/gateway/text/template_processes.hpp"

#include "services/gateway/text/template_process.hpp"
#include "services/gateway/text/text_error.hpp"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace troupe::text {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds shortest_pause{50};
constexpr std::chrono::milliseconds longest_pause{5000};

} // namespace

class template_processes::pool {
 public:
  explicit pool(template_process_options options)
      : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_ < 0)
      throw std::system_error(errno, std::generic_category(), "chat templates: eventfd");
    if (options_.program.empty())
      options_.program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "troupe-template";
    keeper_ = std::thread([this] { keep(); });
  }

  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;

  ~pool() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    wake_keeper();
    keeper_.join();
    close(wake_);
  }

  template_answer ask(const template_request& request, std::chrono::milliseconds time_limit) {
    auto process = take(time_limit);
    const auto pid = process->pid(); // a dead process has none
    try {
      auto answer = process->ask(request, time_limit);
      give_back(std::move(process));
      return answer;
    } catch (const template_process_error& e) {
      give_back(nullptr);
      log("template-process-ended", std::to_string(pid) + ": " + e.what());
      throw template_error(e.what());
    } catch (...) { // the state of the exchange is unknown; the process's place must not be lost
      give_back(nullptr);
      throw;
    }
  }

 private:
  using process_ptr = std::unique_ptr<template_process>;

  process_ptr take(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    ++num_waiting_;
    const auto failures = num_failures_;
    const auto is_over = [&] { return !idle_.empty() || (num_busy_ == 0 && num_failures_ != failures); };
    drop_dead();
    if (wants_more())
      wake_keeper();
    const bool done = changed_.wait_for(lock, patience, is_over);
    --num_waiting_;
    if (!idle_.empty()) {
      auto process = std::move(idle_.back());
      idle_.pop_back();
      ++num_busy_;
      if (wants_more())
        wake_keeper();
      return process;
    }
    throw text_unavailable(done ? failure_
                                : "other conversations have kept the chat template busy for "
                                      + std::to_string(patience.count()) + " ms");
  }

  /// @param process  null: it is dead
  void give_back(process_ptr process) {
    const std::scoped_lock lock(mutex_);
    --num_busy_;
    if (!process) {
      wake_keeper();
      return;
    }
    if (std::find(watched_.begin(), watched_.end(), process->end_handle()) == watched_.end())
      wake_keeper();
    idle_.push_back(std::move(process));
    pause_ = std::chrono::milliseconds{0};
    changed_.notify_one();
  }

  /// The mutex must be held.
  bool wants_more() const {
    return idle_.size() + num_busy_ < std::min(options_.most, num_busy_ + num_waiting_ + 1)
           && (is_used_ || num_waiting_ > 0);
  }

  /// An idle process that died costs no request. The mutex must be held.
  void drop_dead() {
    const auto dead = std::stable_partition(idle_.begin(), idle_.end(),
                                            [](const process_ptr& one) { return one->is_idle(); });
    for (auto one = dead; one != idle_.end(); ++one) {
      log("template-process-ended", std::to_string((*one)->pid()) + ": it died while it had nothing to do");
      postpone_start();
    }
    idle_.erase(dead, idle_.end());
  }

  /// The first death is replaced at once, each further one without an answer in between after a longer pause.
  /// Deaths caused by requests do not count: a client could make others wait. The mutex must be held.
  void postpone_start() {
    next_start_ = clock::now() + pause_;
    pause_ = std::clamp(2 * pause_, shortest_pause, longest_pause);
  }

  /// Runs in the one thread that starts processes: the kernel kills them when it ends.
  void keep() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      drop_dead();
      if (!wants_more() || clock::now() < next_start_) {
        wait(lock, wants_more() ? next_start_ : clock::time_point::max());
        continue;
      }
      is_used_ = true;
      lock.unlock();
      auto [process, failure] = start();
      lock.lock();
      if (process) {
        idle_.push_back(std::move(process));
      } else {
        ++num_failures_;
        failure_ = std::move(failure);
        postpone_start();
      }
      changed_.notify_all();
    }
    idle_.clear();
  }

  /// A process, or the reason why there is none.
  std::pair<process_ptr, std::string> start() {
    try {
      auto process =
          std::make_unique<template_process>(options_.program, options_.memory_bytes, options_.start_limit);
      if (!process->unconfined().empty() && !std::exchange(told_unconfined_, true)) {
        log("templates-unconfined", "chat templates run with limits on memory, time and files, but without a "
                                    "filter of system calls, which is not to be had here ("
                                        + process->unconfined() + ")");
      }
      return {std::move(process), std::string()};
    } catch (const std::exception& e) {
      log("template-process-failed", e.what());
      return {nullptr, e.what()};
    }
  }

  /// Waits until the keeper is woken, an idle process ends, or `until`.
  void wait(std::unique_lock<std::mutex>& lock, clock::time_point until) {
    std::vector<pollfd> watched{{wake_, POLLIN, 0}};
    watched_.clear();
    for (const auto& one : idle_) {
      watched_.push_back(one->end_handle());
      watched.push_back({one->end_handle(), POLLIN, 0});
    }
    int timeout = -1;
    if (until != clock::time_point::max()) {
      timeout = static_cast<int>(std::max<std::int64_t>(
          0, std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count()));
    }
    lock.unlock();
    poll(watched.data(), watched.size(), timeout);
    std::uint64_t ignored = 0;
    (void)!read(wake_, &ignored, sizeof ignored);
    lock.lock();
  }

  void wake_keeper() const {
    const std::uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
  }

  void log(std::string_view event, const std::string& text) const {
    if (options_.log)
      options_.log(event, text);
  }

  template_process_options options_;
  int wake_;
  bool told_unconfined_ = false; // for the keeper alone
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<process_ptr> idle_; // the last one is used first: its caches are warm
  unsigned num_busy_ = 0;
  unsigned num_waiting_ = 0;
  std::vector<int> watched_;       // handles of processes whose end wakes the keeper
  std::uint64_t num_failures_ = 0; // failed starts
  std::string failure_;            // of the last failed start
  clock::time_point next_start_;
  std::chrono::milliseconds pause_{0};
  bool is_used_ = false;
  bool stopping_ = false;
  std::thread keeper_;
};

template_processes::template_processes(template_process_options options)
    : pool_(std::make_unique<pool>(std::move(options))) {}

template_processes::~template_processes() = default;

template_answer template_processes::ask(const template_request& request,
                                        std::chrono::milliseconds time_limit) {
  return pool_->ask(request, time_limit);
}

} // namespace troupe::text
