// What every op needs besides its arguments: threads, an instruction set, scratch.
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
/// Ops neither log nor read the environment, and allocate only while scratch still grows: after one call at
/// the largest shapes, never again. Out of memory, they throw std::bad_alloc, but inside a parallel range
/// that ends the process (std::terminate). Shape mistakes are programming errors: they end the process with
/// one line that names the op and the shape. Bad input must be refused before.
class context {
 public:
  /// @param pool  borrowed, must outlive the context
  /// @param set   a supported instruction set (`select_isa`), whose default plan is followed
  /// @errors std::runtime_error when `set` is not supported here
  explicit context(thread_pool& pool, isa set = detect());

  /// Follows a plan.
  /// @errors std::runtime_error when it names what is not there
  context(thread_pool& pool, const kernel_plan& plan);

  /// With a table of kernels of one's own in the place of its set's, and the set's default plan or another:
  /// for tests. `table` is borrowed.
  context(thread_pool& pool, const kernel_table& table);
  context(thread_pool& pool, const kernel_table& table, const kernel_plan& plan);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  thread_pool& pool() { return pool_; }

  unsigned threads() const { return pool_.threads(); }

  isa instruction_set() const;

  const kernel_plan& plan() const { return *plan_; }

  /// Of what is neither a product nor attention.
  const kernel_table& table() const { return table_; }

  /// Of a set that the plan names.
  const kernel_table& table(isa set) const { return *tables_[static_cast<std::size_t>(set)]; }

  /// At least `num_bytes` of 64-byte aligned memory of thread `thread`; content undefined. The next call for
  /// the same thread may give the same memory. Safe to call inside a parallel range for one's own thread; out
  /// of memory there ends the process.
  std::byte* thread_scratch(unsigned thread, std::size_t num_bytes);

  /// The same, shared by all threads: only called outside parallel ranges.
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
