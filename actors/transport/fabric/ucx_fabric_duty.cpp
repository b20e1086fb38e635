// Who is the progress thread. It may run actors itself, and what they leave to be computed, which saves a
// wake-up of another thread on every message; but what takes long must not stop the heartbeats. So there are
// two threads: one is on duty, the other looks now and then whether the first has been away for too long, and
// then takes its place for good.

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// How long the progress thread may be away, and how often the other one looks: together short against
// heartbeats and against the 50 ms after which a request is hedged.
constexpr auto patience = 15ms;
constexpr auto look_every = 20ms;

// How long jobs may hold up frames that wait behind them.
constexpr auto longest_round = 1ms;

// After a job longer than this, all go to others for so many times as long as it took: what long jobs take
// away from the network stays below a fifth, and a job that only looked long because the thread had to wait
// for a core costs little. Steps are exempt: compute_queue leaves one here only if the last was short.
constexpr auto long_job = 1500us;
constexpr int pause_factor = 4;

} // namespace

void ucx_fabric::work(bool on_duty) {
  while (on_duty || wait_for_duty()) {
    progress_thread_ = std::this_thread::get_id();
    if (run()) {
      leave();
      std::lock_guard guard{duty_mutex_};
      over_ = true;
      duty_changed_.notify_all();
      return;
    }
    on_duty = false;
  }
}

bool ucx_fabric::wait_for_duty() {
  std::unique_lock lock{duty_mutex_};
  relief_waits_ = true;
  while (!over_) {
    duty_changed_.wait_for(lock, look_every);
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

void ucx_fabric::allow_jobs() {
  // Without a second thread in wait, a job that takes long would stop the network.
  may_keep_jobs_ = relief_waits_ && !stop_ && clock::now() >= no_jobs_until_;
}

/// @returns false when another thread has become the progress thread meanwhile
bool ucx_fabric::away_for(clock::time_point since, const std::function<void()>& work) {
  auto mine = since.time_since_epoch().count();
  away_since_ = mine;
  work();
  return away_since_.compare_exchange_strong(mine, 0);
}

bool ucx_fabric::run_jobs() {
  const auto began = clock::now();
  auto now = began;
  std::vector<listener::step> steps;
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
  // Nobody else knows of them: they are done on duty or not.
  for (const auto& step : steps)
    if (on_duty)
      on_duty = away_for(clock::now(), step);
    else
      step();
  return on_duty;
}

} // namespace troupe::wire
