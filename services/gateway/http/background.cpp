#include "services/gateway/http/background.hpp"

#include <algorithm>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace troupe::http {

namespace {

/// Bytes of a job itself.
constexpr std::size_t extra_bytes = 1024;

/// Lower priority than threads that stream and compute on these processors: a thread that works for seconds
/// on one client's text gets a tenth of their time, but a thread that sleeps much is still woken at once.
void yield_to_streams() {
  constexpr int niceness = 10;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
}

/// How long after its arrival a job is sorted.
background::clock::duration handicap(std::size_t num_bytes) {
  return std::chrono::microseconds{num_bytes * 1'000'000 >> 20};
}

} // namespace

background::background(std::size_t num_threads, std::size_t max_bytes, std::chrono::milliseconds time_limit,
                       std::shared_ptr<gateway_metrics> metrics)
    : max_bytes_(max_bytes), time_limit_(time_limit), metrics_(std::move(metrics)) {
  metrics_->text_bytes_limit(max_bytes_);
  for (std::size_t i = 0; i < num_threads; ++i)
    threads_.emplace_back([this, only_short = i == 0 && num_threads > 1] {
      if (!only_short)
        yield_to_streams();
      work(only_short);
    });
}

background::~background() {
  stop();
}

std::size_t background::take_room(std::size_t num_bytes) {
  const std::size_t charge = num_bytes + extra_bytes;
  if (const std::size_t before = held_bytes_.fetch_add(charge); before > 0 && before + charge > max_bytes_) {
    held_bytes_.fetch_sub(charge);
    throw pool_too_busy("requests of " + std::to_string(before >> 20) + " MiB are being read already");
  }
  metrics_->text_bytes(static_cast<double>(charge));
  return charge;
}

void background::free_room(std::size_t charge) {
  held_bytes_.fetch_sub(charge);
  metrics_->text_bytes(-static_cast<double>(charge));
}

/// Call with the mutex held.
void background::tell_counts() const {
  metrics_->text_jobs(waiting_.size(), running_.size());
}

void background::push(std::unique_ptr<job> fresh, std::size_t charge, cancellation cancelled) {
  fresh->charge = charge;
  fresh->came = clock::now();
  fresh->cancelled = std::move(cancelled);
  {
    const std::lock_guard lock{mutex_};
    const auto turn = fresh->came + handicap(charge);
    waiting_.emplace(turn, std::move(fresh));
    tell_counts();
  }
  changed_.notify_all(); // not every thread takes every job
}

background::queue::iterator background::next_for(bool only_short) {
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) {
    return !only_short || entry.second->charge <= short_bytes + extra_bytes;
  });
}

text_end background::run_one(job& taken, const cancellation& cancelled) const {
  const text::limited_work limit{time_limit_, cancelled};
  const bool wanted = !*cancelled;
  const bool done = taken.finish(wanted);
  if (done)
    return text_end::done;
  if (!wanted || limit.ended_by() == text::limited_work::end::cancelled)
    return text_end::cancelled;
  return limit.ended_by() == text::limited_work::end::late ? text_end::timed_out : text_end::failed;
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
    const auto running = running_.insert(running_.end(), {cancelled, clock::now()});
    tell_counts();
    lock.unlock();
    const text_end how = run_one(*taken, cancelled);
    lock.lock();
    running_.erase(running);
    last_end_ = clock::now();
    tell_counts();
    lock.unlock();
    metrics_->text_ended(how);
    free_room(taken->charge);
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
  tell_counts();
  lock.unlock();
  metrics_->text_ended(text_end::cancelled);
  free_room(dropped->charge);
  dropped->finish(false);
  dropped->resume();
}

background::progress background::now() const {
  const std::lock_guard lock{mutex_};
  progress result{{}, {}, last_end_};
  if (!running_.empty()) // in the order of their start
    result.running_since = running_.front().since;
  for (const auto& [turn, one] : waiting_)
    if (!result.waiting_since || one->came < *result.waiting_since)
      result.waiting_since = one->came;
  return result;
}

void background::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    for (const running_job& one : running_)
      *one.cancelled = true;
  }
  changed_.notify_all();
  for (std::thread& one : threads_)
    if (one.joinable())
      one.join();
}

} // namespace troupe::http
