// When to plan, and whether a plan is worth carrying out. Pure: time is a parameter.
//
// Planning costs processor time and moving costs bandwidth, so the policy has hysteresis at three places: an
// imbalance must last, a plan must gain a share of a step's time, and after a plan that gained nothing only
// news, or a larger imbalance, make another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "actors/ids.hpp"

namespace troupe {

struct rebalance_limits {
  double imbalance = 1.15;  ///< busiest hosts' time over that of an even load, above which to plan
  uint32_t looks = 3;       ///< for so many looks in a row
  double least_gain = 0.03; ///< of a step's time; a plan that gains less is not carried out
  double worse = 1.1;       ///< an imbalance must grow by so much to make another plan after a useless one
  std::chrono::seconds settle{1};     ///< after workers came or went, before planning for it
  std::chrono::seconds cool_down{15}; ///< after a change, before the next one for imbalance
  std::chrono::seconds retry{60};     ///< after a useless plan, before another one at the same imbalance
};

class rebalance_policy {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  struct look {
    std::set<worker_id> hosts;       ///< that can take experts
    bool is_settled = false;         ///< nothing is on its way
    bool is_planning = false;        ///< or a change is under way
    uint64_t windows = 0;            ///< counted so far; an imbalance is judged anew only with new ones
    std::optional<double> imbalance; ///< by the recent windows; none without any
  };

  explicit rebalance_policy(rebalance_limits limits = {}) : limits_(limits) {}

  /// @return why to plan now
  std::optional<std::string> should_plan(const look& seen, time_point now);

  /// Does a plan that takes a step from `before` to `after`, in ns, gain enough?
  bool is_worth_it(double before, double after) const {
    return before > 0 && (before - after) / before >= limits_.least_gain;
  }

  /// What has become of a plan.
  void planned(bool is_carried_out, time_point now);

 private:
  rebalance_limits limits_;
  std::set<worker_id> hosts_;
  std::string news_; ///< why workers' coming or going asks for a plan; empty: it does not
  time_point news_since_;
  uint64_t windows_ = 0;
  uint32_t looks_above_ = 0;
  double imbalance_ = 0;  ///< as of the last look
  double useless_at_ = 0; ///< imbalance at which a plan gained nothing; 0: none has
  time_point not_before_; ///< for imbalance
  time_point useless_until_;
};

} // namespace troupe
