#include "services/gateway/text/work_limit.hpp"

#include "services/gateway/text/text_error.hpp"

#include <ctime>
#include <string>
#include <utility>

namespace troupe::text {

namespace {

thread_local limited_work* current = nullptr;

std::int64_t coarse_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

} // namespace

limited_work::limited_work(std::chrono::milliseconds time_limit,
                           std::shared_ptr<const std::atomic<bool>> cancelled)
    : time_limit_(time_limit),
      deadline_ns_(coarse_now_ns() + std::chrono::nanoseconds(time_limit).count()),
      cancelled_(std::move(cancelled)) {
  current = this;
}

limited_work::~limited_work() {
  current = nullptr;
}

void check_work_limit() {
  if (current == nullptr)
    return;
  if (current->cancelled_ && current->cancelled_->load(std::memory_order_relaxed)) {
    current->ended_by_ = limited_work::end::cancelled;
    throw work_cancelled();
  }
  if (coarse_now_ns() > current->deadline_ns_) {
    current->ended_by_ = limited_work::end::late;
    throw text_error("it takes more than " + std::to_string(current->time_limit_.count()) + " ms");
  }
}

} // namespace troupe::text
