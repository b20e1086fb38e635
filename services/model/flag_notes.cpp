#include "services/model/flag_notes.hpp"

#include <string>

namespace troupe {

void log_clamped(const model_options& options, const model_source& source, const process_log& log) {
  auto context = static_cast<std::uint32_t>(source.config.max_context);
  if (options.max_model_len > context) {
    log.line("flag-clamped", "--max-model-len " + std::to_string(options.max_model_len)
                                 + ": the model's context is " + std::to_string(context)
                                 + " tokens, which is used");
  }
}

void log_clamped(const scheduler_options& options, const process_log& log) {
  if (options.replicas > options.expert_workers) {
    log.line("flag-clamped", "--replicas " + std::to_string(options.replicas) + ": with "
                                 + std::to_string(options.expert_workers)
                                 + (options.expert_workers == 1 ? " expert worker" : " expert workers")
                                 + " each expert has as many hosts");
  }
}

} // namespace troupe
