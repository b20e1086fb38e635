#include "kernels/self_test.hpp"

#include <stdexcept>

#include "kernels/self_test_cases.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe::kernels {

std::optional<std::string> self_test(const kernel_table& candidate) {
  const float_mode_guard mode;
  proof::comparison compare(candidate);
  proof::check_products(compare);
  proof::check_rows(compare);
  return compare.failure();
}

std::optional<std::string> self_test(isa set) {
  return self_test(table_of(set));
}

isa_selection select_isa(std::span<const kernel_table* const> candidates) {
  isa_selection selection;
  for (std::size_t i = candidates.size() - 1; i > 0; --i) {
    auto failure = self_test(*candidates[i]);
    if (!failure) {
      selection.chosen = candidates[i]->set;
      return selection;
    }
    selection.refused.push_back({candidates[i]->set, std::move(*failure)});
  }
  selection.chosen = candidates.front()->set;
  return selection;
}

isa_selection select_isa(std::optional<isa> forced) {
  if (forced) {
    const auto failure = self_test(*forced);
    if (failure)
      throw std::runtime_error(std::string("instruction set ") + name_of(*forced)
                               + " gives other bits than the portable reference in " + *failure);
    return {*forced, {}};
  }
  std::vector<const kernel_table*> candidates;
  for (const isa set : supported_isas())
    candidates.push_back(&table_of(set));
  return select_isa(candidates);
}

} // namespace troupe::kernels
