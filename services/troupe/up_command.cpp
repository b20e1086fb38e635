#include <algorithm>
#include <cstdlib>
#include <optional>

#include "kernels/model/plan_store.hpp"
#include "services/gateway/gateway_service.hpp"
#include "services/log/log_options.hpp"
#include "services/model/flag_notes.hpp"
#include "services/model/model_source.hpp"
#include "services/options/environment.hpp"
#include "services/options/processors.hpp"
#include "services/scheduler/scheduler_service.hpp"
#include "services/startup/role_frame.hpp"
#include "services/startup/startup.hpp"
#include "services/startup/stop_signal.hpp"
#include "services/troupe/commands.hpp"
#include "services/troupe/local_cluster.hpp"
#include "services/troupe/memory_shares.hpp"

namespace troupe {

namespace {

void check_traces(const trace_options& traces) {
  if (!traces_in(traces.dir).empty()) {
    throw option_error("--trace: " + traces.dir
                       + " has traces of an earlier run, which would be merged with "
                         "those of this one; name another folder, or empty it");
  }
}

/// Opens the model once, so that what is wrong with it is one error here instead of one from each process,
/// and sets the flags that depend on it.
/// @returns the kernels that were chosen for it; nothing on a GPU
std::optional<kernels::kernel_plan> look_at_model(up_flags& flags, const process_log& log) {
  const stop_while_starting starting(log);
  const model_source source = open_model(flags.model);
  log_clamped(flags.model, source, log);
  check_history(flags.scheduler, source.fingerprint);
  flags.model.max_model_len =
      std::min(flags.model.max_model_len, static_cast<std::uint32_t>(source.config.max_context));
  share_memory(flags, source);
  return source.plan;
}

/// Sets the flags that name files of the run's folder.
void use_folder(up_flags& flags, const run_folder& folder, const std::optional<kernels::kernel_plan>& plan) {
  if (flags.traces.dir.empty()) { // for a later `troupe trace start`
    flags.traces.dir = folder.emptied_traces().string();
    flags.traces.sample = 0;
  }
  if (flags.scheduler.state_dir.empty())
    flags.scheduler.state_dir = (folder.path() / "state").string();
  if (plan && flags.model.kernel_plan == "auto") {
    // Measured once, for all processes, which then pack a cache alike.
    if (flags.model.weight_coding == "auto")
      flags.model.weight_coding = plan->coded_weights ? "exponents" : "none";
    flags.model.kernel_plan = (folder.path() / "kernel-plan.txt").string();
    model::write_plan(flags.model.kernel_plan, *plan);
  }
}

/// One line where a CPU quota leaves processors unused.
void log_quota(const model_options& model, const process_log& log) {
  const std::uint32_t cores = model.num_threads();
  const std::size_t usable = usable_processors().size();
  if (model.threads == 0 && model.cores_list().empty() && cores < usable) {
    log.line("compute", std::to_string(cores) + (cores == 1 ? " thread" : " threads") + " of "
                            + std::to_string(usable) + " processors"
                            + (model.cores == "auto" ? ", not pinned" : "") + ": the cgroup's CPU quota");
  }
}

} // namespace

int up_command(const std::vector<std::string>& arguments) {
  up_flags flags;
  option_parser parser("troupe up", "Starts and supervises a local cluster of separate processes.");
  flags.declare(parser);
  if (parser.parse(arguments) == option_parser::outcome::help)
    return 0;
  // Not for the children: the file that it names has flags that they do not know.
  unsetenv("TROUPE_CONFIG");
  flags.check_ports();
  check_traces(flags.traces);
  stop_signal stop; // until the supervisor takes over: packing a cache takes minutes
  configure_logs(flags.logs);
  process_log log("troupe-up");
  // Reported once, here; the children do not inherit these variables.
  log_unread_variables(parser, log);
  find_unread_variables(parser).remove();
  for (std::uint32_t i = 0; i < flags.up.gateways; ++i)
    check_outside(flags.gateway_at(i));
  check_state_dir(flags.scheduler);
  const auto plan = look_at_model(flags, log);
  log_clamped(flags.scheduler, log);
  const run_folder folder(flags.up.run_dir);
  use_folder(flags, folder, plan);
  log_quota(flags.model, log);
  return local_cluster(flags, folder, log).run();
}

} // namespace troupe
