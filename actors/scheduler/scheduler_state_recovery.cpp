// scheduler_state: after a restart, and after a standstill, who is on the way back and for how long they are
// waited for.
#include <algorithm>

#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

void scheduler_state::begin_recovery() {
  recovery_end_ = now() + defaults::scheduler_recovery;
  recovery_limit_ = now() + defaults::recovery_limit;
}

void scheduler_state::watch_recovery(const worker_hello& hello) {
  // A worker that has been in the cluster before, and no view yet: others will come back, too.
  if (hello.term > 0 && epoch_ == 0 && !recovery_end_ && contacts_.empty())
    begin_recovery();
  // Where one comes there are others.
  if (recovery_end_)
    recovery_end_ =
        std::min(std::max<time_point>(*recovery_end_, now() + defaults::recovery_extension), recovery_limit_);
  // What is loaded has been placed: nobody waits for a first placement any more.
  has_target_ = has_target_ || (hello.term > 0 && !hello.hosted.empty());
  const auto is_back = [&hello](const worker_address& address) {
    return address.id == hello.address.id || (hello.term == 0 && address.name == hello.address.name);
  };
  std::erase_if(expected_, is_back);
  for (const auto& address : missed_)
    if (is_back(address))
      view_publisher_.worker_changed(address.id);
  std::erase_if(missed_, is_back);
}

bool scheduler_state::is_recovering() {
  if (!recovery_end_)
    return false;
  const auto is_complete = knows_workers_ && expected_.empty();
  if (!is_complete && now() < *recovery_end_)
    return true;
  recovery_end_.reset();
  // Who has not come back by now is not waited for, but what an attention worker may be working on is not
  // given to others yet. Expert hosts are replaced: their experts are wanted now, and taken back where they
  // come late.
  for (const auto& address : expected_)
    if (address.role == worker_role::attention)
      missed_.push_back(address);
  expected_.clear();
  return false;
}

void scheduler_state::give_up_missed() {
  if (missed_.empty() || now() < recovery_limit_)
    return;
  for (const auto& address : missed_) {
    view_publisher_.worker_changed(address.id);
    event("worker-gone", described(address) + " has not come back");
  }
  missed_.clear();
  view_changed_ = true;
}

} // namespace troupe
