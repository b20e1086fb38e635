// The revision of the arithmetic: equal revisions give equal bits.
#pragma once

#include <cstdint>

namespace troupe::kernels {

/// Raised by every change of any result bit: of a product, of attention, of sampling, or of quantized
/// weights. It is part of the numerics class, of packed files and of names in the cache. So programs of
/// different revisions do not replace each other, and neither reads weights that the other quantized.
/// tests/unit/kernels/arithmetic_revision_test.cpp holds this revision's results; docs/packed-weights.md
/// names the revision.
inline constexpr std::uint32_t arithmetic_revision = 1;

} // namespace troupe::kernels
