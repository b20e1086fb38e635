// Proof at start that an instruction set gives the bits of the portable reference.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/isa.hpp"

namespace troupe::kernels {

struct kernel_table;

/// An instruction set that was tried and refused.
struct isa_refusal {
  isa set = isa::portable;
  /// The first op whose bytes differ from the portable ones, as "gemm bf16, 7 rows".
  std::string op;
};

struct isa_selection {
  /// What a context should be made with.
  isa chosen = isa::portable;
  std::vector<isa_refusal> refused;
};

/// Compares every op of `set` with the portable reference on small products (memcmp), once in a process.
/// @returns the op that differs, or nothing when all agree
std::optional<std::string> self_test(isa set);

/// Tests several at once, which takes less than one after the other: what they are compared with is made
/// once.
void self_test(std::span<const isa> sets);

/// The same for a table of kernels of one's own; the way in for tests that feed a wrong kernel.
std::optional<std::string> self_test(const kernel_table& candidate);

/// Tries supported sets from the best down and takes the first that passes; `portable` always does.
/// @param forced  use this set and no other
/// @errors std::runtime_error when `forced` is not supported here, or is refused
isa_selection select_isa(std::optional<isa> forced = std::nullopt);

/// The same choice among tables of one's own, worst first, the first of which is taken without a test.
isa_selection select_isa(std::span<const kernel_table* const> candidates);

} // namespace troupe::kernels
