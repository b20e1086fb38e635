// What another thread tells a test.
#pragma once

#include <future>
#include <memory>
#include <utility>

namespace troupe {

/// What another thread tells once. Shared, because that thread may still be telling when the test goes on.
template <class T>
class told {
 public:
  void set(T value) const { promise_->set_value(std::move(value)); }

  T get() const { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<T>> promise_ = std::make_shared<std::promise<T>>();
};

} // namespace troupe
