// A rate by the minute, with a clock that the caller brings.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::http {

/// What may be used by the minute: it fills up evenly, to a minute's worth, which may be used at once.
class token_bucket {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using seconds = std::chrono::duration<double>;

  /// @param per_minute  at least 1
  token_bucket(uint64_t per_minute, time_point now)
      : per_minute_(per_minute), level_(num(per_minute)), at_(now) {}

  uint64_t per_minute() const noexcept { return per_minute_; }

  /// Another rate; what is left stays, up to the new minute's worth.
  void set_rate(uint64_t per_minute, time_point now);

  /// What is left; below 0 where more was charged than there was.
  double level(time_point now) const;

  /// Uses so much, whether it is there or not.
  void charge(uint64_t amount, time_point now);

  /// Until so much is there; 0 when it is. Of more than a minute's worth: until the bucket is full.
  seconds wait_for(uint64_t amount, time_point now) const;

 private:
  static double num(uint64_t amount) { return static_cast<double>(amount); }

  uint64_t per_minute_;
  double level_;
  time_point at_; ///< when it was so much
};

/// A duration as OpenAI writes it in `x-ratelimit-reset-…`: "6m0s", "1s", "250ms".
std::string reset_text(token_bucket::seconds time);

} // namespace troupe::http
