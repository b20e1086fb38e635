// What ends a piece of text work before it is done: a deadline, and a client that has gone. Loops whose
// length or cost a text or a tokenizer.json decides look at it.
#pragma once

#include <atomic>
#include <chrono>
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
  /// @param cancelled  true once nobody wants the result; may be null
  limited_work(std::chrono::milliseconds time_limit, std::shared_ptr<const std::atomic<bool>> cancelled);
  ~limited_work();
  limited_work(const limited_work&) = delete;
  limited_work& operator=(const limited_work&) = delete;

 private:
  friend void check_work_limit();

  std::chrono::milliseconds time_limit_;
  long long deadline_ns_; // of the coarse monotonic clock, which costs a few
                          // nanoseconds to read
  std::shared_ptr<const std::atomic<bool>> cancelled_;
};

/// @throws text_error when this thread's work takes too long, work_cancelled when nobody wants it.
void check_work_limit();

} // namespace troupe::text
