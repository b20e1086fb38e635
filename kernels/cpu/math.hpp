// exp and what is made of it, from fused multiply-adds: the same bits for every vector width. Included by
// isa_kernels.cpp only.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/cpu/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// eˣ within 2 ulp; 0 below −86.6 (where results come near the denormals), infinity above 88.72; NaN stays.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 split in two (Cody and Waite), eʳ by the polynomial of Cephes'
/// expf. Where there is no instruction for it, 2ⁿ is applied as 2ⁿ⁻¹ and 2, so that n = 128 still works.
TROUPE_INLINE vf exp(vf x) {
  const vf clamped = min(set1(88.8F), max(set1(-87.0F), x));
  const vf magic = set1(12582912.0F); // 1.5 · 2²³: adding it leaves the rounded integer in the low bits
  const vf n = sub(fma(clamped, set1(1.44269504088896341F), magic), magic);
  vf r = fma(n, set1(-0.693359375F), clamped);
  r = fma(n, set1(2.12194440e-4F), r);
  vf p = fma(set1(1.9875691500e-4F), r, set1(1.3981999507e-3F));
  p = fma(p, r, set1(8.3334519073e-3F));
  p = fma(p, r, set1(4.1665795894e-2F));
  p = fma(p, r, set1(1.6666665459e-1F));
  p = fma(p, r, set1(5.0000001201e-1F));
  p = add(fma(p, mul(r, r), r), set1(1.0F));
  return select_less(x, set1(-86.6F), set1(0.0F), scale_by_power(p, n));
}

TROUPE_INLINE v16 exp(const v16& x) {
  return each_part([&](std::size_t i) { return exp(x.part[i]); });
}

TROUPE_INLINE vf sigmoid(vf x) {
  return div(set1(1.0F), add(set1(1.0F), exp(sub(set1(0.0F), x))));
}

TROUPE_INLINE v16 sigmoid(const v16& x) {
  return each_part([&](std::size_t i) { return sigmoid(x.part[i]); });
}

/// x · sigmoid(x), as x / (1 + e⁻ˣ).
TROUPE_INLINE vf silu(vf x) {
  return div(x, add(set1(1.0F), exp(sub(set1(0.0F), x))));
}

/// 0.5 x (1 + tanh u) = x · sigmoid(2u), u = √(2/π) (x + 0.044715 x³).
TROUPE_INLINE vf gelu_tanh(vf x) {
  const vf inner = fma(mul(mul(x, x), x), set1(0.044715F), x);
  return div(x, add(set1(1.0F), exp(mul(inner, set1(-1.5957691216057308F)))));
}

/// 0.5 x erfc(−x / √2), erfc by Abramowitz and Stegun 7.1.26 (within 1.5e-7 of erf).
TROUPE_INLINE vf gelu_erf(vf x) {
  const vf z = mul(absolute(x), set1(0.70710678118654752F));
  const vf t = div(set1(1.0F), fma(z, set1(0.3275911F), set1(1.0F)));
  vf p = fma(set1(1.061405429F), t, set1(-1.453152027F));
  p = fma(p, t, set1(1.421413741F));
  p = fma(p, t, set1(-0.284496736F));
  p = fma(p, t, set1(0.254829592F));
  const vf tail = mul(mul(p, t), exp(mul(mul(z, z), set1(-1.0F)))); // erfc(z)
  const vf below = mul(tail, set1(0.5F));
  return mul(x, select_less(x, set1(0.0F), below, sub(set1(1.0F), below)));
}

template <activation Kind>
TROUPE_INLINE v16 activated(const v16& x) {
  return each_part([&](std::size_t i) {
    if constexpr (Kind == activation::silu)
      return silu(x.part[i]);
    else if constexpr (Kind == activation::gelu_tanh)
      return gelu_tanh(x.part[i]);
    else
      return gelu_erf(x.part[i]);
  });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
