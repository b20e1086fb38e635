// What ends a piece of text work before it is done: a deadline, and a client that has gone. Loops whose
// length or cost a text or a tokenizer.json decides look at it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace troupe::text {

/// Nobody wants the result any more.
class work_cancelled : public std::runtime_error {
 public:
  work_cancelled() : std::runtime_error("the client has gone") {}
};

/// Makes a limit this thread's as long as it lives; work without one is not limited. One at a time in a
/// thread.
class limited_work {
 public:
  /// What a look has found, if anything: why the work ended early.
  enum class end : std::uint8_t { none, late, cancelled };

  /// @param cancelled  true once nobody wants the result; may be null
  limited_work(std::chrono::milliseconds time_limit, std::shared_ptr<const std::atomic<bool>> cancelled);
  ~limited_work();
  limited_work(const limited_work&) = delete;
  limited_work& operator=(const limited_work&) = delete;

  end ended_by() const noexcept { return ended_by_; }

 private:
  friend void check_work_limit();

  std::chrono::milliseconds time_limit_;
  std::int64_t deadline_ns_; // of the coarse monotonic clock, which costs a few nanoseconds to read
  std::shared_ptr<const std::atomic<bool>> cancelled_;
  end ended_by_ = end::none;
};

/// @throws text_error when this thread's work takes too long, work_cancelled when nobody wants it.
void check_work_limit();

/// Looks at the limit once in so many steps, for steps that cost less than a look.
class limited_steps {
 public:
  explicit limited_steps(std::uint32_t steps_of_a_look) : each_(steps_of_a_look) {}

  /// @throws as check_work_limit
  void step() {
    if (++taken_ == each_) {
      taken_ = 0;
      check_work_limit();
    }
  }

 private:
  std::uint32_t each_;
  std::uint32_t taken_ = 0;
};

} // namespace troupe::text
