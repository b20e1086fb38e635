// exp and functions built on it, from fused multiply-adds: the same bits for every vector width. Included
// only by the kernels of each instruction set.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/cpu/simd/v16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// eˣ for −87 ≤ x ≤ 88.8 within 2 ulp, as the factors p and 2ⁿ.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 split in two (Cody and Waite), eʳ by the polynomial of Cephes'
/// expf. Without an instruction for it, 2ⁿ is applied as 2ⁿ⁻¹ and 2, so that n = 128 still works.
struct unscaled_exp {
  vf p;
  vf n;

  inline __attribute__((always_inline)) explicit unscaled_exp(vf x) {
    const vf magic = set1(12582912.0F); // 1.5 · 2²³: adding it leaves the rounded integer in the low bits
    n = sub(fma(x, set1(1.44269504088896341F), magic), magic);
    vf r = fma(n, set1(-0.693359375F), x);
    r = fma(n, set1(2.12194440e-4F), r);
    p = fma(set1(1.9875691500e-4F), r, set1(1.3981999507e-3F));
    p = fma(p, r, set1(8.3334519073e-3F));
    p = fma(p, r, set1(4.1665795894e-2F));
    p = fma(p, r, set1(1.6666665459e-1F));
    p = fma(p, r, set1(5.0000001201e-1F));
    p = add(fma(p, mul(r, r), r), set1(1.0F));
  }

  inline __attribute__((always_inline)) vf product() const { return scale_by_power(p, n); }
};

/// eˣ within 2 ulp; 0 below −86.6 (where results come near the denormals), infinity above 88.72; NaN stays.
TROUPE_INLINE vf exp(vf x) {
  const unscaled_exp e(min(set1(88.8F), max(set1(-87.0F), x)));
  return select_less(x, set1(-86.6F), set1(0.0F), e.product());
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

#if defined(TROUPE_ISA_AVX512)

/// x / (1 + e⁻ˣ) if every |x| is between 2⁻¹⁶ and 80, without a division, which takes 16 cycles: a reciprocal
/// refined from 14 bits, and Markstein's correction of the quotient by its remainder. It gives the quotient's
/// bits for all those x (tests/unit/kernels/silu_test.cpp), whatever a processor's approximation is; also for
/// r's neighbour, if 1 / d lies so near the middle that r might be that one (docs/kernels/amx.md).
TROUPE_INLINE vf silu_inside(vf x) {
  const vf d = add(set1(1.0F), unscaled_exp(sub(set1(0.0F), x)).product());
  const vf approximate = _mm512_rcp14_ps(d);
  const vf missing = _mm512_fnmadd_ps(d, approximate, set1(1.0F));
  const vf r = fma(fma(missing, missing, missing), approximate, approximate);
  const vf q = mul(x, r);
  return fma(_mm512_fnmadd_ps(q, d, x), r, q);
}

TROUPE_INLINE bool is_silu_inside(vf x) {
  const __m512i least = _mm512_set1_epi32(0x37800000); // 2⁻¹⁶
  const __m512i range = _mm512_set1_epi32(0x42a00000 - 0x37800000);
  const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(absolute(x)), least);
  return _mm512_cmpgt_epu32_mask(above, range) == 0;
}

#endif

/// x · sigmoid(x), as x / (1 + e⁻ˣ).
TROUPE_INLINE vf silu(vf x) {
#if defined(TROUPE_ISA_AVX512)
  if (is_silu_inside(x))
    return silu_inside(x);
#endif
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

/// g · sigmoid(1.702 g), as g / (1 + e⁻¹·⁷⁰²ᵍ), g = min(x, limit). NaN stays.
TROUPE_INLINE vf clamped_glu(vf x, vf limit) {
  const vf g = min(limit, x);
  return div(g, add(set1(1.0F), exp(mul(g, set1(-1.702F)))));
}

/// @param limit  of clamped_glu
template <activation Kind>
TROUPE_INLINE v16 activated(const v16& x, float limit) {
  return each_part([&](std::size_t i) {
    if constexpr (Kind == activation::silu)
      return silu(x.part[i]);
    else if constexpr (Kind == activation::gelu_tanh)
      return gelu_tanh(x.part[i]);
    else if constexpr (Kind == activation::clamped_glu)
      return clamped_glu(x.part[i], set1(limit));
    else
      return gelu_erf(x.part[i]);
  });
}

/// What a gated unit multiplies its activation with. NaN stays.
template <activation Kind>
TROUPE_INLINE v16 gated_up(const v16& up, float limit) {
  if constexpr (Kind != activation::clamped_glu)
    return up;
  else
    return each_part(
        [&](std::size_t i) { return add(max(set1(-limit), min(set1(limit), up.part[i])), set1(1.0F)); });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
