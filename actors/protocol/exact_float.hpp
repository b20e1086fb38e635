// Floats on the wire, bit for bit.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// Wraps a float in an `inspect` so that its 32 bits are written. CAF 0.17 instead takes floats apart with
/// arithmetic: subnormal numbers change, −0 becomes 0, a NaN a number, and an infinity is halved for ever.
/// Ordinary numbers have the same bytes either way.
class exact_float {
 public:
  explicit exact_float(float& value) : value_(&value) {}

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, exact_float& x) {
    if constexpr (std::is_void_v<typename Inspector::result_type>) {
      f(*x.value_); // text for people
    } else {
      auto bits = std::bit_cast<std::uint32_t>(*x.value_);
      auto result = f(bits);
      if constexpr (Inspector::writes_state)
        *x.value_ = std::bit_cast<float>(bits);
      return result;
    }
  }

 private:
  float* value_;
};

} // namespace troupe
