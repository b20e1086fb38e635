// A rate per minute. The caller provides the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::http {

/// A token bucket: it fills evenly, up to the amount of one minute, which may be used at once.
class token_bucket {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using seconds = std::chrono::duration<double>;

  /// @param per_minute  at least 1
  token_bucket(std::uint64_t per_minute, time_point now)
      : per_minute_(per_minute), level_(num(per_minute)), at_(now) {}

  std::uint64_t per_minute() const noexcept { return per_minute_; }

  /// Changes the rate. The rest stays, up to the new amount of a minute.
  void set_rate(std::uint64_t per_minute, time_point now);

  /// The rest; below 0 if more was charged than there was.
  double level(time_point now) const;

  /// Takes an amount, even if the rest is smaller.
  void charge(std::uint64_t amount, time_point now);

  /// Time until an amount is there; 0: it is there. For more than the bucket holds: until it is full.
  seconds wait_for(std::uint64_t amount, time_point now) const;

 private:
  static double num(std::uint64_t amount) { return static_cast<double>(amount); }

  std::uint64_t per_minute_;
  double level_;
  time_point at_; ///< time of the level
};

/// A duration as OpenAI writes it in `x-ratelimit-reset-…`: "6m0s", "1s", "250ms".
std::string reset_text(token_bucket::seconds time);

} // namespace troupe::http
