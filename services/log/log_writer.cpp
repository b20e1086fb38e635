#include "services/log/log_writer.hpp"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace troupe {

namespace {

constexpr auto complaint_interval = std::chrono::seconds{10};
constexpr auto last_patience = std::chrono::seconds{1};
/// How often a writer that waits for a pipe looks whether it is to end.
constexpr int look_ms = 100;

int open_path(const std::string& path) {
  return path == "-" ? dup(STDERR_FILENO)
                     : open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

} // namespace

/// Shared with the thread, which a disk that hangs may keep for longer than the writer lives.
class log_writer::state {
 public:
  state(std::string path, process_log complaints)
      : path_(std::move(path)), complaints_(std::move(complaints)), fd_(open_path(path_)) {
    if (fd_ < 0)
      throw std::runtime_error("cannot open " + path_ + ": " + std::strerror(errno));
  }

  ~state() {
    if (fd_ >= 0)
      close(fd_);
  }

  state(const state&) = delete;
  state& operator=(const state&) = delete;

  void push(std::string line) {
    const std::lock_guard lock{mutex_};
    if (waiting_bytes_ + line.size() > max_waiting_bytes) {
      ++dropped_;
      return;
    }
    waiting_bytes_ += line.size();
    waiting_.push_back(std::move(line));
    changed_.notify_all();
  }

  void ask_reopen() {
    const std::lock_guard lock{mutex_};
    reopen_ = true;
    changed_.notify_all();
  }

  /// Until stop, and then until nothing waits.
  void run() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || reopen_ || !waiting_.empty(); });
      const bool reopens = std::exchange(reopen_, false);
      std::deque<std::string> lines;
      lines.swap(waiting_);
      waiting_bytes_ = 0;
      const bool is_last = stopping_;
      lock.unlock();
      std::uint64_t lost = 0;
      for (const auto& line : lines)
        lost += put(line) ? 0 : 1;
      if (reopens)
        open_anew();
      lock.lock();
      dropped_ += lost;
      complain();
      if (is_last && waiting_.empty())
        break;
    }
    ended_ = true;
    changed_.notify_all();
  }

  /// Waits for the end of the thread, or until it takes too long.
  void stop() {
    std::unique_lock lock{mutex_};
    stopping_ = true;
    give_up_ = std::chrono::steady_clock::now() + last_patience;
    changed_.notify_all();
    changed_.wait_until(lock, *give_up_ + last_patience, [this] { return ended_; });
  }

 private:
  bool is_given_up() {
    const std::lock_guard lock{mutex_};
    return stopping_ && std::chrono::steady_clock::now() >= *give_up_;
  }

  bool put(std::string_view rest) {
    while (!rest.empty()) {
      if (is_given_up())
        return false;
      pollfd look{fd_, POLLOUT, 0};
      const int ready = ::poll(&look, 1, look_ms);
      if (ready == 0 || (ready < 0 && errno == EINTR))
        continue;
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && (errno == EINTR || errno == EAGAIN))
        continue;
      if (written < 0) {
        why_ = std::strerror(errno);
        return false;
      }
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  void open_anew() {
    const int fresh = open_path(path_);
    if (fresh < 0) {
      complaints_.line("access-log",
                       "cannot open " + path_ + " anew, the old file is written on: " + std::strerror(errno));
      return;
    }
    close(fd_);
    fd_ = fresh;
  }

  /// With the mutex held.
  void complain() {
    const auto now = std::chrono::steady_clock::now();
    if (dropped_ == 0 || now < next_complaint_)
      return;
    next_complaint_ = now + complaint_interval;
    complaints_.line("access-log",
                     std::to_string(dropped_) + " lines for " + (path_ == "-" ? "stderr" : path_)
                         + " are lost: " + (why_.empty() ? "they cannot be written fast enough" : why_),
                     {{"lines", dropped_}});
    dropped_ = 0;
    why_.clear();
  }

  const std::string path_;
  const process_log complaints_;
  int fd_;          ///< the thread's, from the start on
  std::string why_; ///< likewise
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::chrono::steady_clock::time_point next_complaint_{};
  std::optional<std::chrono::steady_clock::time_point> give_up_;
  bool reopen_ = false;
  bool stopping_ = false;
  bool ended_ = false;
};

log_writer::log_writer(std::string path, process_log complaints)
    : state_(std::make_shared<state>(std::move(path), std::move(complaints))) {
  std::thread([shared = state_] { shared->run(); }).detach();
}

log_writer::~log_writer() {
  state_->stop();
}

void log_writer::write(std::string line) {
  state_->push(std::move(line));
}

void log_writer::reopen() {
  state_->ask_reopen();
}

} // namespace troupe
