#include "actors/rebalancer/rebalance_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

std::optional<std::string> rebalance_policy::should_plan(const look& seen, time_point now) {
  if (seen.hosts != hosts_) {
    const auto has_joined = std::any_of(seen.hosts.begin(), seen.hosts.end(),
                                        [this](worker_id id) { return !hosts_.contains(id); });
    // The first hosts have got equal shares from the scheduler, which is the best without measurements.
    if (!hosts_.empty() || seen.imbalance)
      news_ = has_joined ? "a worker has joined" : "a worker is gone";
    news_since_ = now;
    hosts_ = seen.hosts;
  }
  if (seen.imbalance && seen.windows != windows_) {
    windows_ = seen.windows;
    imbalance_ = *seen.imbalance;
    looks_above_ = imbalance_ > limits_.imbalance ? looks_above_ + 1 : 0;
  }
  if (seen.is_planning || !seen.is_settled)
    return std::nullopt;
  if (!news_.empty() && now - news_since_ >= limits_.settle)
    return std::exchange(news_, {});
  if (looks_above_ < limits_.looks || now < not_before_)
    return std::nullopt;
  if (useless_at_ > 0 && now < useless_until_ && imbalance_ < useless_at_ * limits_.worse)
    return std::nullopt;
  return "imbalance";
}

void rebalance_policy::planned(bool is_carried_out, time_point now) {
  looks_above_ = 0;
  if (is_carried_out) {
    useless_at_ = 0;
    not_before_ = now + limits_.cool_down;
  } else {
    useless_at_ = std::max(imbalance_, 1.0);
    useless_until_ = now + limits_.retry;
  }
}

} // namespace troupe
