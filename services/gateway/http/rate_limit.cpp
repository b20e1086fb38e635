#include "services/gateway/http/rate_limit.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::http {

void token_bucket::set_rate(std::uint64_t per_minute, time_point now) {
  level_ = std::min(level(now), num(per_minute));
  at_ = now;
  per_minute_ = per_minute;
}

double token_bucket::level(time_point now) const {
  const double minutes = std::max(0.0, seconds(now - at_).count() / 60);
  return std::min(num(per_minute_), level_ + minutes * num(per_minute_));
}

void token_bucket::charge(std::uint64_t amount, time_point now) {
  level_ = level(now) - num(amount);
  at_ = now;
}

token_bucket::seconds token_bucket::wait_for(std::uint64_t amount, time_point now) const {
  const double missing = std::min(num(amount), num(per_minute_)) - level(now);
  return seconds{std::max(0.0, missing) * 60 / num(per_minute_)};
}

std::string reset_text(token_bucket::seconds time) {
  const auto ms = static_cast<std::uint64_t>(std::ceil(std::max(0.0, time.count()) * 1000));
  if (ms < 1000)
    return std::to_string(ms) + "ms";
  const std::uint64_t whole = (ms + 999) / 1000;
  return (whole >= 60 ? std::to_string(whole / 60) + "m" : "") + std::to_string(whole % 60) + "s";
}

} // namespace troupe::http
