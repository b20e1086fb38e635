// Measured plans that are kept, so that a process that finds one does not measure.
#pragma once

#include "kernels/cpu/gemm/plan.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace troupe::model {

/// What a plan was measured for: another machine's, thread count's, model's or build's is another plan.
struct plan_identity {
  std::string processor; ///< model and microcode; `processor_identity`
  std::string sets;      ///< instruction sets that were allowed
  unsigned threads = 0;
  std::string shapes; ///< of the model's weights, and whether they may be coded

  /// One line, with the build's id.
  std::string text() const;
};

/// The processor's model, stepping and microcode as the system tells them.
std::string processor_identity();

/// An id of the kernels' sources and their compiler: programs of one build have the same.
std::string kernel_build_id();

/// $XDG_CACHE_HOME/troupe, or ~/.cache/troupe; nothing where neither is set.
std::optional<std::filesystem::path> user_cache_folder();

struct plan_store {
  std::filesystem::path folder;
  plan_identity identity;
  /// How long to wait for another process that measures. Then the default is used and nothing measured.
  std::chrono::milliseconds patience{5000};
  /// Told what an operator may want to know: an event's name and a text.
  std::function<void(const char* event, const std::string& text)> tell;

  std::filesystem::path file() const;

  /// The kept plan. One that is damaged, cut short or somebody else's is told of and not there.
  std::optional<kernels::kernel_plan> find() const;

  /// Keeps a plan, whole or not at all. What goes wrong is told of: the plan serves all the same.
  void keep(const kernels::kernel_plan& plan) const;

  /// The kept plan, or what `measure` gives, which is kept; only one process of a folder measures at a time.
  /// @param measure  nothing where it could not be measured: it is not kept
  /// @returns nothing where neither is to be had
  std::optional<kernels::kernel_plan>
  find_or_measure(const std::function<std::optional<kernels::kernel_plan>()>& measure) const;
};

/// @errors model_error that names the file and what is wrong with it
kernels::kernel_plan read_plan(const std::filesystem::path& file);

/// @errors model_error where it cannot be written
void write_plan(const std::filesystem::path& file, const kernels::kernel_plan& plan);

} // namespace troupe::model
