#include "kernels/context.hpp"

#include <stdexcept>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels {

namespace {

std::byte* grown(buffer& memory, std::size_t num_bytes) {
  // Half more than requested, so that rising sizes settle after a few calls.
  if (memory.size() < num_bytes)
    memory = buffer(num_bytes + num_bytes / 2);
  return memory.data();
}

// @param own  replaces its set's table; may be null
std::array<const kernel_table*, num_isas> tables_of(const kernel_plan& plan, const kernel_table* own) {
  std::array<const kernel_table*, num_isas> tables{};
  for (const isa set : plan.sets())
    tables.at(static_cast<std::size_t>(set)) = own != nullptr && own->set == set ? own : &table_of(set);
  if (const auto problem = problem_of(plan, tables))
    throw std::runtime_error("kernel plan: " + *problem);
  return tables;
}

} // namespace

context::context(thread_pool& pool, isa set) : context(pool, default_plan(set)) {}

context::context(thread_pool& pool, const kernel_plan& plan)
    : pool_(pool),
      plan_(std::make_unique<const kernel_plan>(plan)),
      tables_(tables_of(plan, nullptr)),
      table_(table(plan.set)),
      thread_scratch_(pool.threads()) {}

context::context(thread_pool& pool, const kernel_table& own) : context(pool, own, default_plan(own)) {}

context::context(thread_pool& pool, const kernel_table& own, const kernel_plan& plan)
    : pool_(pool),
      plan_(std::make_unique<const kernel_plan>(plan)),
      tables_(tables_of(plan, &own)),
      table_(table(plan.set)),
      thread_scratch_(pool.threads()) {}

context::~context() = default;

isa context::instruction_set() const {
  return table_.set;
}

std::byte* context::thread_scratch(unsigned thread, std::size_t num_bytes) {
  return grown(thread_scratch_[thread], num_bytes);
}

std::byte* context::shared_scratch(std::size_t num_bytes) {
  return grown(shared_scratch_, num_bytes);
}

} // namespace troupe::kernels
