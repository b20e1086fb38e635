// Instruction sets that the kernels are compiled for, and the choice among them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::kernels {

/// One table of kernels each. All give the same bits. `avx512_bf16` is AVX-512 with products and attention on
/// dot products of BF16 pairs, `amx` the same on tiles.
enum class isa : std::uint8_t { portable = 0, avx2 = 1, avx512 = 2, avx512_bf16 = 3, amx = 4 };

inline constexpr std::size_t num_isas = 5;

/// "portable", "avx2", "avx512", "avx512_bf16" or "amx".
const char* name_of(isa set);

/// The set called `name`, or nothing.
std::optional<isa> isa_from_name(std::string_view name);

/// Whether this binary has kernels for `set` and this processor and its operating system can run them. For
/// `amx` the system is asked to lend the process its tile registers.
bool is_supported(isa set);

/// Every supported set, worst first: `portable`, and the best last.
std::span<const isa> supported_isas();

/// The best supported set, unproved: servers use `select_isa` of self_test.hpp.
isa detect();

} // namespace troupe::kernels
