#include "actors/transport/fabric/progress_duty.hpp"

#include <utility>
#include <vector>

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// How long the progress thread may be away on a job, and how often the other thread checks. The sum is short
// against heartbeats and against the 50 ms after which a request is hedged.
constexpr auto patience = 15ms;
constexpr auto look_every = 20ms;

// How long jobs may delay the frames behind them.
constexpr auto longest_round = 1ms;

// After a job longer than this, all jobs go to other threads for `pause_factor` times the length of that job.
// So long jobs take less than a fifth of the time from the network, and a job that was long only because the
// thread waited for a core costs little. Steps are exempt: compute_queue leaves one here only if the last one
// was short.
constexpr auto long_job = 1500us;
constexpr int pause_factor = 4;

} // namespace

void progress_duty::start(std::function<bool()> run, std::function<void()> leave) {
  run_ = std::move(run);
  leave_ = std::move(leave);
  threads_[0] = std::thread{[this] { work(true); }};
  threads_[1] = std::thread{[this] { work(false); }};
}

void progress_duty::join() {
  for (auto& thread : threads_)
    if (thread.joinable())
      thread.join();
}

void progress_duty::work(bool on_duty) {
  while (on_duty || wait_for_duty()) {
    progress_thread_ = std::this_thread::get_id();
    if (run_()) {
      leave_();
      std::lock_guard guard{mutex_};
      over_ = true;
      changed_.notify_all();
      return;
    }
    on_duty = false;
  }
}

bool progress_duty::wait_for_duty() {
  std::unique_lock lock{mutex_};
  relief_waits_ = true;
  while (!over_) {
    changed_.wait_for(lock, look_every);
    auto since = away_since_.load();
    const auto now = clock::now();
    if (since == 0 || now.time_since_epoch().count() - since < clock::duration{patience}.count())
      continue;
    if (away_since_.compare_exchange_strong(since, 0)) {
      relief_waits_ = false;
      ears_.hand_over_jobs();
      no_jobs_until_ = now + pause_factor * patience;
      return true;
    }
  }
  return false;
}

void progress_duty::allow_jobs(bool allowed) {
  // Without a second thread that waits, a long job would stop the network.
  may_keep_jobs_ = allowed && relief_waits_ && clock::now() >= no_jobs_until_;
}

/// @returns false if another thread has become the progress thread meanwhile
bool progress_duty::away_for(clock::time_point since, const std::function<void()>& job) {
  auto mine = since.time_since_epoch().count();
  away_since_ = mine;
  job();
  return away_since_.compare_exchange_strong(mine, 0);
}

bool progress_duty::run_jobs() {
  const auto began = clock::now();
  auto now = began;
  std::vector<fabric::listener::step> steps;
  bool on_duty = true;
  while (on_duty) {
    const auto job = ears_.next_job();
    if (!job)
      break;
    on_duty = away_for(now, [&] {
      if (auto step = job())
        steps.push_back(std::move(step));
    });
    if (!on_duty)
      break;
    const auto then = std::exchange(now, clock::now());
    if (now - then > long_job)
      no_jobs_until_ = now + pause_factor * (now - then);
    if (now - began > longest_round)
      ears_.hand_over_jobs();
  }
  // Only this thread has the steps, so it runs them even if it is not on duty any more.
  for (const auto& step : steps)
    if (on_duty)
      on_duty = away_for(clock::now(), step);
    else
      step();
  return on_duty;
}

} // namespace troupe::wire
