#include "kernels/portable_math.hpp"

#include <bit>
#include <cstdint>
#include <limits>

namespace troupe::kernels {

namespace {

// ln 2 in two parts, the first with 21 trailing zero bits (fdlibm's split).
constexpr double ln2_high = 6.93147180369123816490e-01;
constexpr double ln2_low = 1.90821492927058770002e-10;

// π / 2 in three parts of 33 bits (fdlibm's split): k · part is exact for k below 2²⁰.
constexpr double half_pi_1 = 1.57079632673412561417e+00;
constexpr double half_pi_2 = 6.07710050630396597660e-11;
constexpr double half_pi_3 = 2.02226624871116645580e-21;
constexpr double half_pi_4 = 8.47842766036889956997e-32;

double round_to_integer(double x) {
  constexpr double magic = 6755399441055744.0; // 1.5 · 2⁵²
  return (x + magic) - magic;
}

} // namespace

// Taylor series on |r| ≤ π / 4: the first omitted term is below 2⁻⁵⁶ of the result.
sine_cosine portable_sin_cos(double x) {
  const double k = round_to_integer(x * 6.36619772367581382433e-01);
  const double r = (((x - k * half_pi_1) - k * half_pi_2) - k * half_pi_3) - k * half_pi_4;
  const double s = r * r;
  double sine = -1.0 / 121645100408832000.0; // 1 / 19!
  sine = sine * s + 1.0 / 355687428096000.0;
  sine = sine * s - 1.0 / 1307674368000.0;
  sine = sine * s + 1.0 / 6227020800.0;
  sine = sine * s - 1.0 / 39916800.0;
  sine = sine * s + 1.0 / 362880.0;
  sine = sine * s - 1.0 / 5040.0;
  sine = sine * s + 1.0 / 120.0;
  sine = sine * s - 1.0 / 6.0;
  sine = r + r * s * sine;
  double cosine = -1.0 / 6402373705728000.0; // 1 / 18!
  cosine = cosine * s + 1.0 / 20922789888000.0;
  cosine = cosine * s - 1.0 / 87178291200.0;
  cosine = cosine * s + 1.0 / 479001600.0;
  cosine = cosine * s - 1.0 / 3628800.0;
  cosine = cosine * s + 1.0 / 40320.0;
  cosine = cosine * s - 1.0 / 720.0;
  cosine = cosine * s + 1.0 / 24.0;
  cosine = 1.0 - (0.5 * s - s * s * cosine);
  switch (static_cast<std::int64_t>(k) & 3) {
  case 0:
    return {sine, cosine};
  case 1:
    return {cosine, -sine};
  case 2:
    return {-sine, -cosine};
  default:
    return {-cosine, sine};
  }
}

// x = 2ᵉ m with m in [√½, √2); ln m = 2 artanh((m − 1) / (m + 1)), its series up to the 21st power.
double portable_log(double x) {
  if (!(x > 0.0))
    return x == 0.0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (x == std::numeric_limits<double>::infinity())
    return x;
  auto bits = std::bit_cast<std::uint64_t>(x);
  std::int64_t exponent = 0;
  if (bits < (std::uint64_t{1} << 52)) { // denormal
    bits = std::bit_cast<std::uint64_t>(x * 18014398509481984.0);
    exponent = -54;
  }
  exponent += static_cast<std::int64_t>(bits >> 52) - 1023;
  auto m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1.0) / (m + 1.0);
  const double s = z * z;
  double series = 1.0 / 21.0;
  for (int n = 19; n >= 3; n -= 2)
    series = series * s + 1.0 / n;
  const auto e = static_cast<double>(exponent);
  return e * ln2_high + (e * ln2_low + (2.0 * z + 2.0 * z * s * series));
}

double portable_exp(double x) {
  const double n = round_to_integer(x * 1.44269504088896338700);
  const double r = (x - n * ln2_high) - n * ln2_low;
  double p = 1.0 / 87178291200.0; // 1 / 14!
  double factorial = 6227020800.0;
  for (int i = 13; i >= 1; --i) {
    p = p * r + 1.0 / factorial;
    factorial /= i;
  }
  p = p * r + 1.0;
  return p * std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52);
}

} // namespace troupe::kernels
