#include "services/gateway/http/background.hpp"

#include <algorithm>
#include <string>

namespace troupe::http {

namespace {

using clock = std::chrono::steady_clock;

/// How much later than it came a job has its turn.
clock::duration handicap(size_t num_bytes) {
  return std::chrono::microseconds{num_bytes * 1'000'000 >> 20};
}

} // namespace

background::background(size_t num_threads, size_t max_bytes, std::chrono::milliseconds time_limit)
    : max_bytes_(max_bytes), time_limit_(time_limit) {
  for (size_t i = 0; i < num_threads; ++i)
    threads_.emplace_back([this, only_short = i == 0 && num_threads > 1] { work(only_short); });
}

background::~background() {
  stop();
}

size_t background::take_room(size_t num_bytes) {
  const size_t charge = num_bytes + 1024;
  if (const size_t before = held_bytes_.fetch_add(charge); before > 0 && before + charge > max_bytes_) {
    held_bytes_.fetch_sub(charge);
    throw too_busy("requests of " + std::to_string(before >> 20) + " MiB are being read already");
  }
  return charge;
}

void background::push(std::unique_ptr<job> fresh, size_t charge, cancellation cancelled) {
  fresh->charge = charge;
  fresh->cancelled = std::move(cancelled);
  {
    const std::lock_guard lock{mutex_};
    waiting_.emplace(clock::now() + handicap(charge), std::move(fresh));
  }
  changed_.notify_all(); // not every thread takes every job
}

background::queue::iterator background::next_for(bool only_short) {
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return !only_short || entry.second->charge <= short_bytes + 1024;
  });
}

void background::work(bool only_short) {
  std::unique_lock lock{mutex_};
  while (true) {
    auto next = waiting_.end();
    changed_.wait(lock, [&] { return stopping_ || (next = next_for(only_short)) != waiting_.end(); });
    if (stopping_)
      return;
    std::unique_ptr<job> taken = std::move(next->second);
    waiting_.erase(next);
    const cancellation cancelled =
        taken->cancelled ? taken->cancelled : std::make_shared<std::atomic<bool>>(false);
    running_.push_back(cancelled);
    lock.unlock();
    {
      const text::limited_work limit{time_limit_, cancelled};
      taken->finish(!*cancelled);
    }
    lock.lock();
    running_.erase(std::find(running_.begin(), running_.end(), cancelled));
    lock.unlock();
    held_bytes_.fetch_sub(taken->charge);
    taken->resume();
    taken.reset();
    lock.lock();
  }
}

void background::cancel(const cancellation& which) {
  *which = true;
  std::unique_lock lock{mutex_};
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const auto& entry) { return entry.second->cancelled == which; });
  if (found == waiting_.end())
    return;
  auto dropped = std::move(found->second);
  waiting_.erase(found);
  lock.unlock();
  held_bytes_.fetch_sub(dropped->charge);
  dropped->finish(false);
  dropped->resume();
}

void background::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    for (const cancellation& one : running_)
      *one = true;
  }
  changed_.notify_all();
  for (std::thread& one : threads_)
    if (one.joinable())
      one.join();
}

} // namespace troupe::http
