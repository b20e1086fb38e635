// The context of every op: threads, an instruction set, scratch memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/isa.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe::kernels {

struct kernel_plan;
struct kernel_table;

/// Passed first to every op. One thread uses a context at a time; contexts may share a pool.
///
/// Ops neither log nor read the environment. They allocate only while scratch grows: after one call at the
/// largest shapes, never again. Without memory they throw std::bad_alloc; inside a parallel range that ends
/// the process (std::terminate). Wrong shapes are programming errors and end the process with one line that
/// names op and shape: callers must refuse bad input before.
class context {
 public:
  /// @param pool  borrowed, must outlive the context
  /// @param set   a supported instruction set (`select_isa`), whose default plan is used
  /// @throws std::runtime_error  `set` is not supported here
  explicit context(thread_pool& pool, isa set = detect());

  /// Uses a plan.
  /// @throws std::runtime_error  the plan names a missing kernel or set
  context(thread_pool& pool, const kernel_plan& plan);

  /// For tests: a given table replaces its set's, with the set's default plan or another one. `table` is
  /// borrowed.
  context(thread_pool& pool, const kernel_table& table);
  context(thread_pool& pool, const kernel_table& table, const kernel_plan& plan);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  thread_pool& pool() { return pool_; }

  unsigned threads() const { return pool_.threads(); }

  isa instruction_set() const;

  const kernel_plan& plan() const { return *plan_; }

  /// The table for ops other than products and attention.
  const kernel_table& table() const { return table_; }

  /// The table of a set that the plan names.
  const kernel_table& table(isa set) const { return *tables_[static_cast<std::size_t>(set)]; }

  /// At least `num_bytes` of 64-byte aligned memory of thread `thread`; content undefined. The next call for
  /// the same thread may return the same memory. Inside a parallel range each thread may call it for itself;
  /// without memory that ends the process.
  std::byte* thread_scratch(unsigned thread, std::size_t num_bytes);

  /// The same, shared by all threads; only outside parallel ranges.
  std::byte* shared_scratch(std::size_t num_bytes);

 private:
  thread_pool& pool_;
  std::unique_ptr<const kernel_plan> plan_;
  std::array<const kernel_table*, num_isas> tables_; // null: not in the plan
  const kernel_table& table_;
  std::vector<buffer> thread_scratch_;
  buffer shared_scratch_;
};

} // namespace troupe::kernels
