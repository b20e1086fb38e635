// Values from another thread to a test.
#pragma once

#include <future>
#include <memory>
#include <utility>

namespace troupe {

/// A value that another thread sets once. Shared, because that thread may still be setting it when the test
/// continues.
template <class T>
class told {
 public:
  void set(T value) const { promise_->set_value(std::move(value)); }

  T get() const { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
};

} // namespace troupe
