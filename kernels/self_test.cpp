#include "kernels/self_test.hpp"

#include <array>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "kernels/self_test_cases.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe::kernels {

namespace {

std::optional<std::string> test_with(const kernel_table& candidate, proof::reference_results& reference) {
  const float_mode_guard mode;
  proof::comparison compare(candidate, reference);
  proof::check_products(compare);
  proof::check_quantized_products(compare);
  proof::check_rows(compare);
  return compare.failure();
}

// Cached: a process asks more than once, for packing weights and for computing.
const std::optional<std::string>& result_of(isa set, proof::reference_results& reference) {
  struct result {
    std::once_flag once;
    std::optional<std::string> failure;
  };

  static std::array<result, num_isas> results;
  result& known = results.at(static_cast<std::size_t>(set));
  std::call_once(known.once, [&] { known.failure = test_with(table_of(set), reference); });
  return known.failure;
}

} // namespace

std::optional<std::string> self_test(const kernel_table& candidate) {
  proof::reference_results reference;
  return test_with(candidate, reference);
}

std::optional<std::string> self_test(isa set) {
  proof::reference_results reference;
  return result_of(set, reference);
}

void self_test(std::span<const isa> sets) {
  proof::reference_results reference;
  for (const isa set : sets)
    result_of(set, reference);
}

namespace {

// The last of `count` that passes, or the first.
template <class Set, class Test>
isa_selection last_to_pass(std::size_t count, const Set& set, const Test& test) {
  isa_selection selection;
  for (std::size_t i = count - 1; i > 0; --i) {
    std::optional<std::string> failure = test(i);
    if (!failure) {
      selection.chosen = set(i);
      return selection;
    }
    selection.refused.push_back({set(i), std::move(*failure)});
  }
  selection.chosen = set(0);
  return selection;
}

} // namespace

isa_selection select_isa(std::span<const kernel_table* const> candidates) {
  return last_to_pass(
      candidates.size(), [&](std::size_t i) { return candidates[i]->set; },
      [&](std::size_t i) { return self_test(*candidates[i]); });
}

isa_selection select_isa(std::optional<isa> forced) {
  if (forced) {
    const auto failure = self_test(*forced);
    if (failure)
      throw std::runtime_error(std::string("instruction set ") + name_of(*forced)
                               + " gives other bits than the portable reference in " + *failure);
    return {*forced, {}};
  }
  const std::span<const isa> sets = supported_isas();
  return last_to_pass(
      sets.size(), [&](std::size_t i) { return sets[i]; }, [&](std::size_t i) { return self_test(sets[i]); });
}

} // namespace troupe::kernels
