#include "kernels/context.hpp"

#include "kernels/cpu/kernel_table.hpp"

namespace troupe::kernels {

namespace {

std::byte* grown(buffer& memory, std::size_t num_bytes) {
  // Half more than asked, so that rising sizes settle after a few calls.
  if (memory.size() < num_bytes)
    memory = buffer(num_bytes + num_bytes / 2);
  return memory.data();
}

} // namespace

context::context(thread_pool& pool, isa set) : context(pool, table_of(set)) {}

context::context(thread_pool& pool, const kernel_table& table)
    : pool_(pool), table_(table), thread_scratch_(pool.threads()) {}

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
