// Instruction sets with compiled kernels, and the choice among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::kernels {

/// Each has a table of kernels. All give the same bits. `avx512_bf16` is AVX-512 with products and attention
/// using dot products of BF16 pairs, `amx` the same with tiles.
enum class isa : std::uint8_t { portable = 0, avx2 = 1, avx512 = 2, avx512_bf16 = 3, amx = 4 };

inline constexpr std::size_t num_isas = 5;

/// "portable", "avx2", "avx512", "avx512_bf16" or "amx".
const char* name_of(isa set);

/// The set with this name, or empty.
std::optional<isa> isa_from_name(std::string_view name);

/// Whether this binary has kernels for `set`, and processor and operating system can run them. For `amx` this
/// requests the tile registers from the system.
bool is_supported(isa set);

/// Every supported set, worst first: `portable`, and the best last.
std::span<const isa> supported_isas();

/// The best supported set, without a self test: servers use `select_isa` of self_test.hpp.
isa detect();

} // namespace troupe::kernels
