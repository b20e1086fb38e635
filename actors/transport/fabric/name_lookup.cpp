#include "actors/transport/fabric/name_lookup.hpp"

namespace troupe::wire {

name_lookup::~name_lookup() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable())
    thread_.join();
}

void name_lookup::start(const endpoint_name& name, callback done) {
  {
    std::lock_guard guard{mutex_};
    if (jobs_.size() < max_jobs) {
      jobs_.push_back({name, std::move(done)});
      if (!thread_.joinable())
        thread_ = std::thread{[this] { run(); }};
      changed_.notify_one();
      return;
    }
  }
  done({}, "too many names are being looked up");
}

void name_lookup::run() {
  for (;;) {
    job next;
    {
      std::unique_lock guard{mutex_};
      changed_.wait(guard, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_)
        return;
      next = std::move(jobs_.front());
      jobs_.pop_front();
    }
    std::string error;
    auto addresses = look_up(next.name, false, error);
    next.done(std::move(addresses), std::move(error));
  }
}

} // namespace troupe::wire
