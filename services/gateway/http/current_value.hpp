// A value that may be replaced while it is in use.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace troupe::http {

/// Holds the value in force. A reader keeps the value that it got, even if it is replaced meanwhile.
/// Thread-safe.
template <class T>
class current_value {
 public:
  explicit current_value(std::shared_ptr<const T> first) : value_(std::move(first)) {}

  explicit current_value(T first) : value_(std::make_shared<const T>(std::move(first))) {}

  std::shared_ptr<const T> get() const {
    const std::lock_guard lock{mutex_};
    return value_;
  }

  void set(std::shared_ptr<const T> next) {
    const std::lock_guard lock{mutex_};
    value_.swap(next);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
};

} // namespace troupe::http
