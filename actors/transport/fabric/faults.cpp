#include "actors/transport/fabric/faults.hpp"

namespace troupe {

fault_injector::~fault_injector() = default;

seeded_faults::seeded_faults(std::uint64_t seed, chances odds) : random_(seed), odds_(odds) {}

fault seeded_faults::decide(wire::frame_kind kind, std::size_t) {
  // Control frames pass: losing a monitor is a defect of the transport, not a failure it must survive.
  if (kind != wire::frame_kind::message)
    return {};
  std::lock_guard guard{mutex_};
  auto draw = static_cast<unsigned>(random_() % 1000);
  const auto within = [&draw](unsigned chance) {
    const bool hit = draw < chance;
    draw -= hit ? 0 : chance;
    return hit;
  };
  if (within(odds_.drop))
    return {fault::action::drop, {}};
  if (within(odds_.delay)) {
    const auto longest = static_cast<std::uint64_t>(odds_.longest_delay.count());
    return {fault::action::delay, std::chrono::milliseconds{random_() % (longest + 1)}};
  }
  if (within(odds_.duplicate))
    return {fault::action::duplicate, {}};
  if (within(odds_.kill))
    return {fault::action::kill, {}};
  return {};
}

} // namespace troupe
