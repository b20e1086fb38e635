// Floats on the wire, bit for bit.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// Stands for a float in an `inspect`, and is written as its 32 bits. CAF 0.17 takes floats apart with
/// arithmetic instead: subnormal numbers arrive as others, −0 as 0, a NaN as a number, and an infinity is
/// divided by two for ever. Ordinary numbers have the same bytes either way.
class exact_float {
 public:
  explicit exact_float(float& value) : value_(&value) {}

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, exact_float& x) {
    if constexpr (std::is_void_v<typename Inspector::result_type>) {
      f(*x.value_); // for people's eyes
    } else {
      auto bits = std::bit_cast<uint32_t>(*x.value_);
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
