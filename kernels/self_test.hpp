// Tests at start that an instruction set gives the bits of the portable reference.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/isa.hpp"

namespace troupe::kernels {

struct kernel_table;

/// An instruction set that failed the test.
struct isa_refusal {
  isa set = isa::portable;
  /// The first op that differs from the portable one, as "gemm bf16, 7 rows".
  std::string op;
};

struct isa_selection {
  /// The set to make a context with.
  isa chosen = isa::portable;
  std::vector<isa_refusal> refused;
};

/// Compares every op of `set` with the portable reference on small products (memcmp), once in a process.
/// @returns the op that differs; empty if all agree
std::optional<std::string> self_test(isa set);

/// Tests several sets at once, which is faster than one by one: the reference results are computed once.
void self_test(std::span<const isa> sets);

/// The same for a given table, so that tests can pass a wrong kernel.
std::optional<std::string> self_test(const kernel_table& candidate);

/// Tries supported sets from the best down and takes the first that passes; `portable` always does.
/// @param forced  use only this set
/// @throws std::runtime_error  `forced` is not supported here, or fails
isa_selection select_isa(std::optional<isa> forced = std::nullopt);

/// The same choice among given tables, worst first; the first is not tested.
isa_selection select_isa(std::span<const kernel_table* const> candidates);

} // namespace troupe::kernels
