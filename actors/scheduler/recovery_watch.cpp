#include "actors/scheduler/recovery_watch.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void recovery_watch::begin(time_point now) {
  if (!end_)
    limit_ = now + defaults::recovery_limit;
  end_ = std::min<time_point>(now + defaults::scheduler_recovery, limit_);
}

void recovery_watch::restore(std::vector<worker_address> workers, time_point now) {
  expected_ = std::move(workers);
  knows_workers_ = !expected_.empty();
  if (knows_workers_)
    begin(now);
}

void recovery_watch::expect(const worker_address& worker, time_point now) {
  expected_.push_back(worker);
  knows_workers_ = true;
  begin(now);
}

std::vector<worker_id> recovery_watch::joined(const worker_hello& hello, bool is_first, time_point now) {
  if (is_first && hello.term > 0 && !end_) {
    knows_workers_ = knows_workers_ && !expected_.empty();
    begin(now);
  }
  if (end_)
    end_ = std::min(std::max<time_point>(*end_, now + defaults::recovery_extension), limit_);
  const auto is_back = [&hello](const worker_address& address) {
    return address.id == hello.address.id || (hello.term == 0 && address.name == hello.address.name);
  };
  std::erase_if(expected_, is_back);
  std::vector<worker_id> back;
  for (const auto& address : missed_)
    if (is_back(address))
      back.push_back(address.id);
  std::erase_if(missed_, is_back);
  return back;
}

bool recovery_watch::is_recovering(time_point now) {
  if (!end_)
    return false;
  const auto is_complete = knows_workers_ && expected_.empty();
  if (!is_complete && now < *end_)
    return true;
  end_.reset();
  for (const auto& address : expected_)
    if (address.role == worker_role::attention)
      missed_.push_back(address);
  expected_.clear();
  return false;
}

std::vector<worker_address> recovery_watch::give_up(time_point now) {
  return now < limit_ ? std::vector<worker_address>{} : std::exchange(missed_, {});
}

} // namespace troupe
