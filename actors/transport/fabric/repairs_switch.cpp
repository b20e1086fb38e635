#include "actors/transport/fabric/repairs_switch.hpp"

#include <atomic>

namespace troupe::wire {

namespace {

std::atomic<bool> act_now{true};

} // namespace

void let_repairs_act(bool act) noexcept {
  act_now.store(act, std::memory_order_relaxed);
}

bool repairs_act() noexcept {
  return act_now.load(std::memory_order_relaxed);
}

} // namespace troupe::wire
