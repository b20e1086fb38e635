#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "kernels/model/error.hpp"
#include "kernels/model/packed_format.hpp"
#include "kernels/plan_text.hpp"
#include "services/log/process_log.hpp"
#include "services/model/kernel_choice.hpp"
#include "services/model/model_source.hpp"
#include "services/options/model_folder.hpp"
#include "services/troupe/commands.hpp"

namespace troupe {

namespace {

/// All choices for each number of rows, the fastest first.
void print_table(std::vector<kernels::calibration_cell> cells) {
  std::stable_sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) {
    return std::tie(a.kind, a.rows, a.seconds) < std::tie(b.kind, b.rows, b.seconds);
  });
  std::printf("%-10s %5s %10s %8s %8s  %s\n", "weights", "rows", "us", "GB/s", "default", "kernel");
  double standard = 0.0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& cell = cells[i];
    if (i == 0 || cells[i - 1].kind != cell.kind || cells[i - 1].rows != cell.rows) {
      const auto found = std::find_if(cells.begin(), cells.end(), [&](const auto& other) {
        return other.kind == cell.kind && other.rows == cell.rows && other.is_default;
      });
      standard = found == cells.end() ? 0.0 : found->seconds;
    }
    std::printf("%-10s %5zu %10.1f %8.1f %8.2f %c%s%s\n", kernels::name_of(cell.kind), cell.rows,
                cell.seconds * 1e6, cell.num_bytes / cell.seconds * 1e-9, standard / cell.seconds,
                cell.is_chosen ? '*' : ' ', kernels::text_of(cell.regime, cell.kind).c_str(),
                cell.is_default ? " (default)" : "");
  }
  std::printf("* is chosen. 'default' is how many times as fast as the default: less than 1.03 is chance.\n");
}

} // namespace

int tune_command(const std::vector<std::string>& arguments) {
  model_options model;
  std::string out;
  std::uint32_t seconds = 30;
  option_parser parser(
      "troupe tune",
      "Measures which kernels are the fastest for a model on this machine, and keeps the plan for "
      "the programs that serve it with the same flags.");
  declare_model_folder(parser, &model.model_dir);
  model.declare(parser);
  parser.text("out", "FILE", "also write the plan to this file, for --kernel-plan", &out);
  parser.number("seconds", "maximum measuring time in seconds", &seconds, 2, 3600);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  if (model.kernel_plan != "auto") {
    throw option_error("--kernel-plan: '" + model.kernel_plan
                       + "' is what `troupe tune` finds out; leave it out");
  }
  model.device = "cpu";
  process_log log("troupe-tune");
  const model_source source = open_model(model, plan_use::opens);
  const bool is_packed =
      std::filesystem::exists(std::filesystem::path(model.model_dir) / model::packed_file_name);
  const auto demand = demand_of(model, source.config, *source.weights, is_packed);
  const auto result = measure_plan(model, demand,
                                   {.sets = {},
                                    .budget = std::chrono::seconds{seconds},
                                    .num_bytes = std::size_t{512} << 20,
                                    .most_rounds = 200,
                                    .sizes = true});
  print_table(result.cells);
  if (result.is_incomplete) {
    throw std::runtime_error("--seconds: " + std::to_string(seconds)
                             + " are not enough here for a look at every choice; nothing is kept");
  }
  if (demand.may_code)
    std::printf("BF16 weights: %s\n", result.plan.coded_weights ? "with coded exponents" : "plain");
  const auto store = plan_store_for(model, demand, log);
  if (!store.folder.empty()) {
    store.keep(result.plan);
    std::printf("kept in %s\n", store.file().c_str());
  }
  if (!out.empty()) {
    model::write_plan(out, result.plan);
    std::printf("written to %s\n", out.c_str());
  }
  return 0;
}

} // namespace troupe
