#include "actors/scheduler/queue_rate.hpp"

#include <algorithm>
#include <cmath>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

using seconds = std::chrono::duration<double>;

constexpr double least_measured = 0.1; ///< of the longest wait
constexpr double promised = 0.8;       ///< likewise

} // namespace

void queue_rate::observe(time_point now, std::uint64_t given, bool is_waiting) {
  if (longest_wait_.count() == 0)
    return;
  if (waiting_since_) {
    // Time in which the scheduler itself stood still does not count.
    const seconds passed = std::min<seconds>(now - *waiting_since_, 2 * defaults::scheduler_tick);
    const double left = std::exp2(-passed / seconds{longest_wait_});
    seconds_ = seconds_ * left + passed.count();
    tokens_ = tokens_ * left + static_cast<double>(given);
  }
  waiting_since_.reset();
  if (is_waiting)
    waiting_since_ = now;
}

std::optional<std::uint64_t> queue_rate::most_waiting(std::uint64_t held) const {
  const double wait = seconds{longest_wait_}.count();
  if (longest_wait_.count() == 0 || seconds_ < least_measured * wait)
    return std::nullopt;
  return std::max(static_cast<std::uint64_t>(tokens_ / seconds_ * promised * wait), held);
}

} // namespace troupe
