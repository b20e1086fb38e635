#include "services/model/kernel_choice.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "kernels/model/error.hpp"
#include "kernels/model/plan_weights.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

namespace {

std::optional<kernels::isa> forced_isa(const model_options& options) {
  return options.cpu_isa == "auto" ? std::nullopt : kernels::isa_from_name(options.cpu_isa);
}

kernels::kernel_plan plan_from_file(const model_options& options) {
  kernels::kernel_plan plan;
  try {
    plan = model::read_plan(options.kernel_plan);
  } catch (const model::model_error& error) {
    throw option_error("--kernel-plan: " + std::string(error.what()));
  }
  const auto forced = forced_isa(options);
  for (const auto set : plan.sets()) {
    if (forced && set != *forced) {
      throw option_error("--kernel-plan: " + options.kernel_plan + " names " + kernels::name_of(set)
                         + ", and --cpu-isa allows " + options.cpu_isa + " alone");
    }
    if (const auto failure = kernels::self_test(set)) {
      throw option_error("--kernel-plan: " + options.kernel_plan + " names " + kernels::name_of(set)
                         + ", which gives other bits than the portable reference in " + *failure);
    }
  }
  return plan;
}

bool is_proved(const kernels::kernel_plan& plan) {
  const auto sets = plan.sets();
  kernels::self_test(std::span<const kernels::isa>(sets));
  return std::none_of(sets.begin(), sets.end(),
                      [](kernels::isa set) { return kernels::self_test(set).has_value(); });
}

std::vector<kernels::calibration_weights> weights_of(const kernel_demand& demand) {
  return model::plan_weights(demand.config, demand.type, demand.quant,
                             demand.may_code ? model::weight_coding::none : demand.coding);
}

} // namespace

kernels::isa_selection choose_isa(const model_options& options) {
  try {
    return kernels::select_isa(forced_isa(options));
  } catch (const std::runtime_error& error) {
    throw option_error("--cpu-isa: " + std::string(error.what()));
  }
}

std::vector<kernels::isa> allowed_sets(const model_options& options) {
  const auto best = choose_isa(options).chosen;
  if (options.cpu_isa != "auto")
    return {best};
  const auto sets = kernels::supported_isas(); // the refused ones are better than the best
  return {sets.begin(), std::find(sets.begin(), sets.end(), best) + 1};
}

model::plan_store plan_store_for(const model_options& options, const kernel_demand& demand,
                                 const process_log& log) {
  model::plan_store store;
  if (!options.weights_cache.empty())
    store.folder = options.weights_cache;
  else if (const auto folder = model::user_cache_folder())
    store.folder = *folder;
  store.identity.processor = model::processor_identity();
  for (const auto set : allowed_sets(options))
    store.identity.sets += (store.identity.sets.empty() ? "" : ",") + std::string(kernels::name_of(set));
  store.identity.threads = options.num_threads();
  store.identity.shapes = model::text_of(weights_of(demand)) + (demand.may_code ? ", coded or plain" : "");
  store.tell = [log](const char* event, const std::string& text) { log.line(event, text); };
  return store;
}

kernels::calibration_result measure_plan(const model_options& options, const kernel_demand& demand,
                                         kernels::calibration_options how) {
  const auto sets = allowed_sets(options);
  how.sets = sets;
  how.may_code = demand.may_code;
  const auto cores = options.cores_list();
  kernels::calibration_result result;
  {
    kernels::thread_pool pool({.threads = options.num_threads(), .cores = cores});
    result = kernels::calibrate(pool, weights_of(demand), how);
  }
  if (!is_proved(result.plan))
    result.plan = kernels::default_plan(sets.back());
  return result;
}

kernels::kernel_plan plan_without_model(const model_options& options) {
  if (options.kernel_plan != "auto" && options.kernel_plan != "default")
    return plan_from_file(options);
  return kernels::default_plan(choose_isa(options).chosen);
}

kernels::kernel_plan choose_plan(const model_options& options, const kernel_demand& demand, plan_use use,
                                 const process_log& log) {
  auto standard = plan_without_model(options);
  if (options.kernel_plan != "auto")
    return standard;
  const auto store = plan_store_for(options, demand, log);
  const auto measure = [&]() -> std::optional<kernels::kernel_plan> {
    const auto begin = std::chrono::steady_clock::now();
    auto result = measure_plan(options, demand, {});
    const auto gone =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    if (result.is_incomplete) {
      log.line("kernel-plan-default", "this machine was too busy to measure its kernels in "
                                          + std::to_string(gone.count()) + " ms; `troupe tune` takes longer");
      return std::nullopt;
    }
    log.line("kernel-plan-measured",
             std::to_string(result.cells.size()) + " choices in " + std::to_string(gone.count()) + " ms");
    return std::move(result.plan);
  };
  std::optional<kernels::kernel_plan> plan;
  if (use == plan_use::opens)
    plan = store.folder.empty() ? std::nullopt : store.find();
  else
    plan = store.folder.empty() ? measure() : store.find_or_measure(measure);
  return plan && is_proved(*plan) ? *std::move(plan) : std::move(standard);
}

} // namespace troupe
