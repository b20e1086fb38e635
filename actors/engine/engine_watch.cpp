#include "actors/engine/engine_watch.hpp"

#include <algorithm>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

/// A step that took longer than the limit raises the next limit to this multiple of its duration. An engine
/// that always needs that long must not be given up again and again, and one that hung must not be trusted
/// for hours.
constexpr int beyond_limit_factor = 2;

std::uint64_t milliseconds(engine_watch::duration time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

} // namespace

void engine_watch::awake(time_point now) {
  if (awake_ != time_point{} && now - awake_ > defaults::lease)
    for (auto& [step, since] : begun_)
      since = std::min(since + (now - awake_), now);
  awake_ = now;
}

void engine_watch::begin(std::uint64_t step, time_point now) {
  awake(now);
  begun_[step] = now;
}

void engine_watch::end(std::uint64_t step, time_point now) {
  awake(now);
  const auto found = begun_.find(step);
  if (found == begun_.end())
    return;
  auto took = now - found->second;
  begun_.erase(found);
  ++steps_;
  if (took > limit())
    took = took * beyond_limit_factor / defaults::engine_stall_factor;
  longest_ = std::max(took, longest_ - longest_ / 1000);
}

engine_progress engine_watch::look(time_point now) {
  awake(now);
  engine_progress result;
  result.steps = steps_;
  result.step_limit_ms = milliseconds(limit());
  for (const auto& [step, since] : begun_)
    result.oldest_step_ms = std::max(result.oldest_step_ms, milliseconds(now - since));
  return result;
}

engine_watch::duration engine_watch::limit() const {
  return std::max<duration>(defaults::engine_stall, longest_ * defaults::engine_stall_factor);
}

} // namespace troupe
