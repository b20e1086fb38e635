// sin, cos, log and exp in double, from additions and multiplications alone.
//
// glibc chooses variants of these by processor, which may differ in the last bit; golden files must not
// depend on that. Compiled without contraction, IEEE double gives the same bits on every machine.
#pragma once

namespace troupe::kernels {

struct sine_cosine {
  double sine;
  double cosine;
};

/// Within a few 1e-16 of sin x and cos x for |x| below 1.6 million (2²⁰ · π / 2), and so for positions up to
/// that; the error grows beyond.
sine_cosine portable_sin_cos(double x);

/// Natural logarithm, within a few ulp; −infinity for 0, NaN below.
double portable_log(double x);

/// eˣ, within a few ulp, for |x| below 700.
double portable_exp(double x);

} // namespace troupe::kernels
