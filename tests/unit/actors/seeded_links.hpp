// Late and reordered actions of fakes, by a seed. Everything waits on the virtual clock of the fixture.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "tests/unit/actors/deterministic_system.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {

/// Runs a scenario for the seeds 1..count until one fails. The failure prints its seed, and the environment
/// variable TROUPE_SEED runs that one alone.
template <class Scenario>
void for_each_seed(std::uint32_t count, Scenario scenario) {
  std::uint32_t first = 1;
  if (const auto* alone = std::getenv("TROUPE_SEED"); alone != nullptr) // NOLINT(concurrency-mt-unsafe)
    first = count = static_cast<std::uint32_t>(std::strtoul(alone, nullptr, 10));
  for (auto seed = first; seed <= count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("TROUPE_SEED=" + std::to_string(seed) + " runs this alone");
    scenario(seed);
  }
}

/// Links between stand-ins. Messages are late by chance, one in eight by much, and so overtake those of other
/// senders and meet a newer state. Two messages from one sender to one receiver never change places, and none
/// is duplicated or lost while both live: that is what the transport promises.
class seeded_links {
 public:
  using duration = std::chrono::nanoseconds;

  /// @param latency  most messages take less; the late ones up to 20 times as long
  seeded_links(deterministic_system& test, std::uint32_t seed, std::chrono::microseconds latency)
      : test_(test), random_(seed), latency_(latency) {}

  std::uint32_t below(std::uint32_t bound) { return random_.below(bound); }

  bool one_in(std::uint32_t bound) { return below(bound) == 0; }

  duration up_to(std::chrono::microseconds most) {
    return std::chrono::microseconds{below(static_cast<std::uint32_t>(most.count()) + 1)};
  }

  /// `arrives` is called when a message of `from` that is sent now gets to `to`.
  void send(std::uint64_t from, std::uint64_t to, std::function<void()> arrives) {
    auto& last = last_[{from, to}];
    last = std::max(last, test_.now() + up_to(one_in(8) ? 20 * latency_ : latency_));
    plans_.emplace(last, plan{from, to, std::move(arrives)});
  }

  /// Plans an event.
  void later(duration pause, std::function<void()> happens) {
    plans_.emplace(test_.now() + pause, plan{0, 0, std::move(happens)});
  }

  /// A process has died: messages from and to it are lost.
  void forget(std::uint64_t who) {
    std::erase_if(plans_,
                  [who](const auto& entry) { return entry.second.from == who || entry.second.to == who; });
  }

  /// Moves time, with all planned events.
  /// @param look  examines the actors, at least every `slice`
  void pass(duration time, const std::function<void()>& look = {}) {
    for (const auto end = test_.now() + time;;) {
      auto next = look ? std::min(end, test_.now() + slice) : end;
      if (!plans_.empty())
        next = std::min(next, plans_.begin()->first);
      test_.advance(std::max(duration::zero(), next - test_.now()));
      if (look)
        look();
      if (!plans_.empty() && plans_.begin()->first <= test_.now()) {
        plans_.extract(plans_.begin()).mapped().happens();
        test_.run();
        if (look)
          look();
      } else if (test_.now() >= end) {
        return;
      }
    }
  }

 private:
  static constexpr duration slice = std::chrono::milliseconds{10};

  struct plan {
    std::uint64_t from;
    std::uint64_t to;
    std::function<void()> happens;
  };

  deterministic_system& test_;
  dice random_;
  std::chrono::microseconds latency_;
  std::multimap<duration, plan> plans_; ///< equal times: in the order of planning
  std::map<std::pair<std::uint64_t, std::uint64_t>, duration> last_;
};

} // namespace troupe
