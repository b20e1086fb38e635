#include "services/gateway/text/work_limit.hpp"

#include "services/gateway/text/text_error.hpp"

#include <ctime>
#include <string>
#include <utility>

namespace troupe::text {

namespace {

thread_local const limited_work* current = nullptr;

long long coarse_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
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
  if (current == nullptr) {
    return;
  }
  if (current->cancelled_ && current->cancelled_->load(std::memory_order_relaxed)) {
    throw work_cancelled();
  }
  if (coarse_now_ns() > current->deadline_ns_) {
    throw text_error("it takes more than " + std::to_string(current->time_limit_.count()) + " ms");
  }
}

} // namespace troupe::text
