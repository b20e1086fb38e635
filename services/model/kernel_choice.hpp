// The choice of CPU kernels: --cpu-isa, --kernel-plan.
#pragma once

#include <string>
#include <vector>

#include "kernels/calibration.hpp"
#include "kernels/model/config.hpp"
#include "kernels/model/plan_store.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/self_test.hpp"
#include "services/log/process_log.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// The instruction set of --cpu-isa; auto: the best that passes its self-test.
/// @throws option_error when the forced set is not supported here or fails its self-test
kernels::isa_selection choose_isa(const model_options& options);

/// The sets that a plan may mix, slowest first: up to the result of `choose_isa`, or only the forced one.
/// Self-tests run later, for sets that a plan names.
/// @throws option_error as `choose_isa`
std::vector<kernels::isa> allowed_sets(const model_options& options);

/// The properties of a model that decide on its kernels.
struct kernel_demand {
  const model::model_config& config;
  kernels::dtype type = kernels::dtype::f32;
  model::quantization quant{};
  /// Storage of bfloat16 weights.
  model::weight_coding coding = model::weight_coding::none;
  /// This program packs the weights, so the plan may choose the storage.
  bool may_code = false;
};

/// The store of measured plans for such a model; its folder is empty where there is none.
model::plan_store plan_store_for(const model_options& options, const kernel_demand& demand,
                                 const process_log& log);

/// Measures `allowed_sets` on as many threads as the process will compute with. Self-tests check the result;
/// if one fails, the result is the default plan.
kernels::calibration_result measure_plan(const model_options& options, const kernel_demand& demand,
                                         kernels::calibration_options how);

enum class plan_use {
  computes, ///< measure where no plan is stored
  opens,    ///< do not measure: use the stored plan, or the default
};

/// The plan of --kernel-plan. Measuring takes at most 2 s, once per machine, thread count, model and build.
/// @throws option_error for a file that is no plan, or names a set that --cpu-isa forbids or that fails its
///         self-test
kernels::kernel_plan choose_plan(const model_options& options, const kernel_demand& demand, plan_use use,
                                 const process_log& log);

/// The plan of a file, or the default; `auto` is the default, since measuring needs a model.
/// @throws option_error as `choose_plan`
kernels::kernel_plan plan_without_model(const model_options& options);

} // namespace troupe
