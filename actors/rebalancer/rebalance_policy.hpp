// When to plan, and whether to carry out a plan. Pure: time is a parameter.
//
// Planning costs processor time and moving costs bandwidth, so the policy has hysteresis in three places: an
// imbalance must last, a plan must gain a share of a step's time, and after a useless plan only news or a
// larger imbalance cause another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "actors/protocol/ids.hpp"

namespace troupe {

struct rebalance_limits {
  double imbalance = 1.15;  ///< plan above this ratio of the busiest hosts' time to that of an even load
  std::uint32_t looks = 3;  ///< consecutive looks above it
  double least_gain = 0.03; ///< share of a step's time; a plan that gains less is not carried out
  double worse = 1.1;       ///< growth of the imbalance that allows another plan after a useless one
  std::chrono::seconds settle{1};     ///< from a worker's coming or going to planning for it
  std::chrono::seconds cool_down{15}; ///< from one change to the next one for imbalance
  std::chrono::seconds retry{60};     ///< from a useless plan to another one at the same imbalance
};

class rebalance_policy {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct look {
    std::set<worker_id> hosts;       ///< that can hold experts
    bool is_settled = false;         ///< no move is under way
    bool is_planning = false;        ///< or a change is under way
    std::uint64_t windows = 0;       ///< counted so far; an imbalance is judged again only with new ones
    std::optional<double> imbalance; ///< by the recent windows; empty without any
  };

  explicit rebalance_policy(rebalance_limits limits = {}) : limits_(limits) {}

  /// @returns a reason to plan now
  std::optional<std::string> should_plan(const look& seen, time_point now);

  /// Whether a plan that shortens a step from `before` to `after`, in ns, gains enough.
  bool is_worth_it(double before, double after) const {
    return before > 0 && (before - after) / before >= limits_.least_gain;
  }

  /// The result of a plan.
  void planned(bool is_carried_out, time_point now);

 private:
  rebalance_limits limits_;
  std::set<worker_id> hosts_;
  std::string news_; ///< why a worker's coming or going requires a plan; empty: none does
  time_point news_since_;
  std::uint64_t windows_ = 0;
  std::uint32_t looks_above_ = 0;
  double imbalance_ = 0;  ///< at the last look
  double useless_at_ = 0; ///< imbalance at which a plan gained nothing; 0: none yet
  time_point not_before_; ///< for plans because of imbalance
  time_point useless_until_;
};

} // namespace troupe
