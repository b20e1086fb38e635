#include "services/top/top_session.hpp"

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <unistd.h>

#include "services/client/terminal_text.hpp"
#include "services/top/screen.hpp"
#include "services/top/terminal.hpp"

namespace troupe::top {

namespace asio = boost::asio;
using asio::use_awaitable;
using clock = std::chrono::steady_clock;

namespace {

void rethrow(const std::exception_ptr& error) {
  if (error)
    std::rethrow_exception(error);
}

void print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    std::cout << line << '\n';
}

asio::awaitable<void> sample_twice(sampler& source, const session_options& options) {
  const sample before = co_await source.take();
  asio::steady_timer pause(co_await asio::this_coro::executor, options.interval);
  co_await pause.async_wait(use_awaitable);
  const sample after = co_await source.take();
  const heading about{options.url, after.at - before.at, {}};
  print(screen_lines(about, compare(before, after), {}));
}

/// All of it runs on one thread.
class session {
 public:
  session(sampler source, const session_options& options)
      : options_(options), source_(std::move(source)), signals_(io_, SIGINT, SIGTERM, SIGHUP), keys_(io_) {
    if (::isatty(STDOUT_FILENO) == 0)
      return;
    for (const int number : {SIGWINCH, SIGTSTP, SIGCONT, SIGQUIT})
      signals_.add(number);
    screen_.emplace(); // from here on none of these may end or stop the process unheard
    if (screen_->keys() >= 0)
      keys_.assign(::dup(screen_->keys()));
  }

  void run() {
    draw();
    asio::co_spawn(io_, ask_on(), rethrow);
    asio::co_spawn(io_, obey_signals(), rethrow);
    if (keys_.is_open())
      asio::co_spawn(io_, obey_keys(), rethrow);
    io_.run();
  }

 private:
  asio::awaitable<void> ask_on() {
    asio::steady_timer pause(io_);
    for (;;) {
      const auto begun = clock::now();
      co_await ask();
      draw();
      // Where the answers took longer, the next question follows at once.
      pause.expires_at(std::max(begun + options_.interval, clock::now()));
      co_await pause.async_wait(use_awaitable);
    }
  }

  asio::awaitable<void> ask() {
    try {
      sample fresh = co_await source_.take();
      const sample& before = last_ ? *last_ : fresh;
      about_.interval = fresh.at - before.at;
      about_.trouble.clear();
      figures_ = compare(before, fresh);
      last_ = std::move(fresh);
    } catch (const std::exception& error) {
      about_.trouble = error.what();
    }
  }

  asio::awaitable<void> obey_signals() {
    for (;;) {
      const int number = co_await signals_.async_wait(use_awaitable);
      if (number == SIGTSTP) {
        screen_->leave();
        std::raise(SIGSTOP); // until the shell says to go on: by SIGCONT, which takes the terminal again
      } else if (number == SIGCONT) {
        screen_->enter();
      } else if (number == SIGQUIT) {
        screen_->leave();
        std::signal(SIGQUIT, SIG_DFL);
        std::raise(SIGQUIT); // ends the process with a core dump
      } else if (number != SIGWINCH) {
        io_.stop();
        co_return;
      }
      draw();
    }
  }

  asio::awaitable<void> obey_keys() {
    for (;;) {
      char key = 0;
      boost::system::error_code error;
      co_await keys_.async_read_some(asio::buffer(&key, 1), asio::redirect_error(use_awaitable, error));
      if (error || key == 'q' || key == 'Q') {
        io_.stop();
        co_return;
      }
    }
  }

  void draw() {
    const screen_size size = screen_ ? screen_->size() : screen_size{};
    const auto lines = figures_ ? screen_lines(about_, *figures_, size) : screen_lines(about_, size);
    if (screen_) {
      screen_->show(lines);
      return;
    }
    if (!figures_ && about_.trouble.empty())
      return; // nothing to print yet
    print(about_.trouble.empty() ? lines : std::vector{printable(about_.trouble)});
    std::cout << std::endl;
    if (!std::cout)
      io_.stop(); // standard output is closed
  }

  const session_options options_;
  asio::io_context io_;
  sampler source_;
  asio::signal_set signals_;
  asio::posix::stream_descriptor keys_;
  std::optional<terminal> screen_;
  heading about_{options_.url, {}, {}};
  std::optional<sample> last_;
  std::optional<overview> figures_;
};

} // namespace

void print_once(sampler source, const session_options& options) {
  asio::io_context io;
  asio::co_spawn(io, sample_twice(source, options), rethrow);
  io.run();
}

void watch(sampler source, const session_options& options) {
  session(std::move(source), options).run();
}

} // namespace troupe::top
