// Which bits the arithmetic gives.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Raised by every change that gives one bit of a result another value: of a product, of attention, of
/// sampling, or of what weights are quantized to. It is part of the numerics class, of packed files and of
/// the names in the cache, so that programs of different revisions do not replace one another, and neither
/// reads what the other quantized. tests/unit/kernels/arithmetic_revision_test.cpp holds the results of this
/// one, and docs/packed-weights.md says which it is.
inline constexpr std::uint32_t arithmetic_revision = 1;

} // namespace troupe::kernels
