// Saves measured plans, so that later processes need not measure.
#pragma once

#include "kernels/cpu/gemm/plan.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace troupe::model {

/// What a plan was measured for: another machine, thread count, model or build needs another plan.
struct plan_identity {
  std::string processor; ///< model and microcode; `processor_identity`
  std::string sets;      ///< allowed instruction sets
  unsigned threads = 0;
  std::string shapes; ///< of the model's weights, and whether they may be coded

  /// One line, with the build's id.
  std::string text() const;
};

/// The processor's model, stepping and microcode from the system.
std::string processor_identity();

/// Identifies the kernels' sources and their compiler: equal for programs of one build.
std::string kernel_build_id();

/// $XDG_CACHE_HOME/troupe, or ~/.cache/troupe; empty if neither variable is set.
std::optional<std::filesystem::path> user_cache_folder();

struct plan_store {
  std::filesystem::path folder;
  plan_identity identity;
  /// Longest wait for another measuring process; then the default plan is used without measuring.
  std::chrono::milliseconds patience{5000};
  /// Receives events for operators: a name and a text.
  std::function<void(const char* event, const std::string& text)> tell;

  std::filesystem::path file() const;

  /// The saved plan. One that is damaged, incomplete or of another identity is reported and ignored.
  std::optional<kernels::kernel_plan> find() const;

  /// Saves a plan atomically. Failures are reported; the plan is used all the same.
  void keep(const kernels::kernel_plan& plan) const;

  /// The saved plan; otherwise the result of `measure`, which is saved. Only one process of a folder measures
  /// at a time.
  /// @param measure  returns nothing if it could not measure: nothing is saved then
  /// @returns empty if neither is available
  std::optional<kernels::kernel_plan>
  find_or_measure(const std::function<std::optional<kernels::kernel_plan>()>& measure) const;
};

/// @throws model_error naming the file and the fault
kernels::kernel_plan read_plan(const std::filesystem::path& file);

/// @throws model_error  it cannot be written
void write_plan(const std::filesystem::path& file, const kernels::kernel_plan& plan);

} // namespace troupe::model
