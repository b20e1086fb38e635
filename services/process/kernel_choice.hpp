// Which kernels a process computes with on the CPU: --cpu-isa, --kernel-plan.
#pragma once

#include <string>
#include <vector>

#include "kernels/calibration.hpp"
#include "kernels/model/config.hpp"
#include "kernels/model/plan_store.hpp"
#include "kernels/model/quantization.hpp"
#include "kernels/self_test.hpp"
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// The instruction set that --cpu-isa asks for, or the best that passes its self-test.
/// @throws option_error when the forced set is not supported here or fails its self-test
kernels::isa_selection choose_isa(const model_options& options);

/// The sets that a plan may mix, worst first: up to the one that `choose_isa` finds, or the forced one. Only
/// those that a plan names are proved.
/// @throws option_error as `choose_isa`
std::vector<kernels::isa> allowed_sets(const model_options& options);

/// What a model is computed as, as far as kernels go.
struct kernel_demand {
  const model::model_config& config;
  kernels::dtype type = kernels::dtype::f32;
  model::quantization quant{};
  /// BF16 weights are, or shall be, kept so.
  model::weight_coding coding = model::weight_coding::none;
  /// They are packed by this program, so that the plan may say how.
  bool may_code = false;
};

/// Where the measured plans of such a model are kept; the folder is empty where there is none.
model::plan_store plan_store_for(const model_options& options, const kernel_demand& demand,
                                 const process_log& log);

/// Measures `allowed_sets`, on as many threads as the process will compute with. What comes out is proved by
/// self-tests: where one fails, it is the default plan.
kernels::calibration_result measure_plan(const model_options& options, const kernel_demand& demand,
                                         kernels::calibration_options how);

enum class plan_use {
  computes, ///< measures where nothing is kept
  opens,    ///< looks at the model alone: what is kept, or the default
};

/// The plan that --kernel-plan asks for. Measuring takes 2 s at most, once for a machine, a thread count, a
/// model and a build.
/// @throws option_error for a file that is no plan, or names what --cpu-isa forbids or fails its self-test
kernels::kernel_plan choose_plan(const model_options& options, const kernel_demand& demand, plan_use use,
                                 const process_log& log);

/// The plan of a file, or the default: what is known without a model.
/// @throws option_error as `choose_plan`
kernels::kernel_plan plan_without_model(const model_options& options);

} // namespace troupe
