// Virtual time, and what is planned in it.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include "actors/transport/fabric/clock.hpp"

namespace troupe::simulation {

using time_point = wire::clock::time_point;
using duration = std::chrono::nanoseconds;

/// Its owner moves time. Plans for the same time are carried out in the order in which they were made.
class agenda {
 public:
  time_point now() const { return now_; }

  /// @pre to >= now()
  void move(time_point to) { now_ = to; }

  /// Plans `what` for `when`, or for now when that is over.
  void at(time_point when, std::function<void()> what) {
    plans_.emplace(std::max(when, now_), std::move(what));
  }

  void after(duration pause, std::function<void()> what) { at(now_ + pause, std::move(what)); }

  bool is_empty() const { return plans_.empty(); }

  /// When the next thing is due. @pre !is_empty()
  time_point next() const { return plans_.begin()->first; }

  /// Takes out what is next. @pre !is_empty()
  std::function<void()> take() { return std::move(plans_.extract(plans_.begin()).mapped()); }

 private:
  time_point now_{std::chrono::seconds{1}};
  std::multimap<time_point, std::function<void()>> plans_;
};

} // namespace troupe::simulation
