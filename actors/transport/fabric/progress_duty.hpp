// Which of two threads is the progress thread. It runs actors itself, and what they leave to be computed,
// which saves a wake-up of another thread on every message. A long job must not stop the heartbeats, so there
// are two threads: one is on duty; the other checks at intervals whether the first has been away on a job for
// too long, and then takes its place for good.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "actors/transport/fabric/clock.hpp"
#include "actors/transport/fabric/fabric.hpp"

namespace troupe::wire {

class progress_duty {
 public:
  /// @param ears  has the jobs; outlives this object
  explicit progress_duty(fabric::listener& ears) : ears_(ears) {}

  /// Starts both threads.
  /// @param run    the work of the progress thread; returns false if another thread has become the progress
  /// thread
  /// @param leave  called once, after `run` has returned true
  void start(std::function<bool()> run, std::function<void()> leave);

  /// Waits until `leave` has returned. @pre `run` will return true
  void join();

  /// Whether the calling thread is the progress thread. @threads any
  bool is_here() const { return std::this_thread::get_id() == progress_thread_.load(); }

  // -- on the progress thread -------------------------------------------------

  /// Decides whether work that arrives now may wait for `run_jobs`.
  void allow_jobs(bool allowed);

  bool may_keep_jobs() const { return may_keep_jobs_; }

  /// Runs the listener's jobs, and the steps that they leave.
  /// @returns false if another thread has become the progress thread meanwhile
  bool run_jobs();

 private:
  void work(bool on_duty);
  bool wait_for_duty();
  bool away_for(clock::time_point since, const std::function<void()>& job);

  fabric::listener& ears_;
  std::function<bool()> run_;
  std::function<void()> leave_;
  bool may_keep_jobs_ = false;
  clock::time_point no_jobs_until_;
  std::atomic<std::thread::id> progress_thread_{};

  // Since when the progress thread has been away on a job, by its clock; 0 if it is not. The thread that
  // changes it from that value to 0 is the progress thread from then on.
  std::atomic<clock::rep> away_since_{0};
  std::atomic<bool> relief_waits_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::array<std::thread, 2> threads_;
};

} // namespace troupe::wire
