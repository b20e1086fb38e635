// Limits on text work: a deadline, and cancellation when the client is gone. Loops whose length or cost
// depends on a text or a tokenizer.json check them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>

namespace troupe::text {

/// The result is no longer wanted.
class work_cancelled : public std::runtime_error {
 public:
  work_cancelled() : std::runtime_error("the client has gone") {}
};

/// Limits the work of this thread while the object lives; other work is unlimited. At most one in a thread.
class limited_work {
 public:
  /// Why the work ended early, if it did.
  enum class end : std::uint8_t { none, late, cancelled };

  /// @param cancelled  becomes true when the result is no longer wanted; may be null
  limited_work(std::chrono::milliseconds time_limit, std::shared_ptr<const std::atomic<bool>> cancelled);
  ~limited_work();
  limited_work(const limited_work&) = delete;
  limited_work& operator=(const limited_work&) = delete;

  end ended_by() const noexcept { return ended_by_; }

 private:
  friend void check_work_limit();

  std::chrono::milliseconds time_limit_;
  std::int64_t deadline_ns_; // on the coarse monotonic clock, which costs a few nanoseconds to read
  std::shared_ptr<const std::atomic<bool>> cancelled_;
  end ended_by_ = end::none;
};

/// @throws text_error  the work of this thread takes too long
/// @throws work_cancelled
void check_work_limit();

/// Checks the limit once every N steps, for steps that cost less than a check.
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
