// When to look again instead of going to sleep: a sleep and a wake-up cost more than a short wait, and
// nothing is dearer than a thread that spins where others have work.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace troupe::wire {

/// Decides how long the progress thread polls after its last work before it sleeps. It polls while that finds
/// work, stops when it polled in vain, and begins again when sleeps turn out short. Where others want the
/// core it lets them, and stays away for a while.
class polling {
 public:
  using duration = std::chrono::steady_clock::duration;
  using time_point = std::chrono::steady_clock::time_point;

  /// @param limit  longest wait for work without sleeping; 0 never polls
  explicit polling(duration limit) : limit_(limit) {}

  /// True when it is worth looking again, false when the thread should sleep.
  bool worth(time_point now) {
    if (limit_ == duration::zero() || !pays_ || now < away_until_)
      return false;
    if (now - last_work_ < limit_)
      return true;
    pays_ = false;
    short_sleeps_ = 0;
    short_sleeps_needed_ = std::min(2 * short_sleeps_needed_, most_short_sleeps);
    return false;
  }

  /// Something was there to do.
  /// @param polled  found by polling
  void worked(time_point now, bool polled) {
    last_work_ = now;
    if (polled)
      short_sleeps_needed_ = 1;
  }

  /// A sleep has ended with something to do, `time` after it began.
  void slept(duration time) {
    if (time < 4 * limit_ && ++short_sleeps_ >= short_sleeps_needed_) {
      pays_ = true;
      short_sleeps_ = 0;
    }
  }

  /// Another thread was let onto the core, for `time`.
  void yielded(duration time, time_point now) {
    if (time < crowded)
      return;
    pause_ = now - away_until_ > last_pause ? first_pause : std::min(2 * pause_, last_pause);
    away_until_ = now + pause_;
  }

 private:
  // Longer than a thread that only handles messages, a peer's on this host for one, keeps the core.
  static constexpr duration crowded = std::chrono::milliseconds{1};
  // A thread that computes keeps the core for about 3 ms each time; so this costs a computing thread 15 % at
  // first, 0.3 % finally.
  static constexpr duration first_pause = std::chrono::milliseconds{20};
  static constexpr duration last_pause = std::chrono::seconds{1};
  static constexpr std::uint32_t most_short_sleeps = 64;

  duration limit_;
  bool pays_ = true;
  time_point last_work_;
  time_point away_until_;
  duration pause_ = first_pause;
  std::uint32_t short_sleeps_ = 0;
  std::uint32_t short_sleeps_needed_ = 1;
};

} // namespace troupe::wire
