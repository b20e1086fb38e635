#include "services/log/log_events.hpp"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

constexpr auto debug = log_level::debug;
constexpr auto info = log_level::info;
constexpr auto warning = log_level::warning;
constexpr auto error = log_level::error;

constexpr auto events = std::to_array<log_event>({
    {"access-log", warning},
    {"active", info},
    {"attention-ready", info},
    {"chat-template-loses", warning},
    {"cluster-not-ready", warning},
    {"cluster-ready", info},
    {"compute", info},
    {"context", info},
    {"device-lost", error},
    {"environment", warning},
    {"expert-room", info},
    {"expert-room-tight", warning},
    {"experts-have-room", info},
    {"experts-not-fetched", warning},
    {"experts-unusable", error},
    {"experts-without-room", warning},
    {"failed", error},
    {"few-descriptors", warning},
    {"flag-clamped", warning},
    {"gpu-refused", warning},
    {"guest-refused", warning},
    {"history", info},
    {"history-damaged", warning},
    {"history-late", warning},
    {"history-unsaved", warning},
    {"history-unused", warning},
    {"host-order-failed", warning},
    {"isa-refused", warning},
    {"keys-read", info},
    {"lease-lost", error},
    {"lease-not-renewed", warning},
    {"left-early", warning},
    {"listening", info},
    {"loading-attention", info},
    {"loading-experts", info},
    {"log-lines-dropped", warning},
    {"metrics", info},
    {"model-ignored", info},
    {"model-opened", info},
    {"move-given-up", warning},
    {"no-api-key", warning},
    {"no-shared-memory", warning},
    {"orders-damaged", warning},
    {"otlp", warning},
    {"output-head", info},
    {"packing-experts", info},
    {"peer-down", info},
    {"peer-of-other-version", info},
    {"peer-refused", warning},
    {"placement-change", info},
    {"placement-change-stuck", warning},
    {"placement-changed", info},
    {"placement-not-saved", warning},
    {"placement-unbalanced", warning},
    {"plan-failed", warning},
    {"quantized", info},
    {"queue-stopped", warning},
    {"ready", info},
    {"refused", error},
    {"reload", info},
    {"reload-failed", warning},
    {"request", info},
    {"request-accepted", debug},
    {"request-cancelled", debug},
    {"request-failed", warning},
    {"request-finished", debug},
    {"request-placed", debug},
    {"request-queued", debug},
    {"request-refused", info},
    {"request-released", debug},
    {"request-replayed", warning},
    {"request-warning", warning},
    {"running", info},
    {"scheduler-late", warning},
    {"secret-read", info},
    {"sequence-cancelled", debug},
    {"sequence-failed", warning},
    {"sequence-finished", debug},
    {"sequence-started", debug},
    {"standby", info},
    {"state-damaged", warning},
    {"stop-late", error},
    {"stopping", info},
    {"stuck", warning},
    {"supervisor", warning},
    {"template-process-ended", warning},
    {"template-process-failed", error},
    {"templates-unconfined", warning},
    {"term-raised", info},
    {"tls-certificate", info},
    {"tls-certificate-expires", warning},
    {"tls-handshake-failed", debug},
    {"tokenizer-files-differ", info},
    {"trace-failed", warning},
    {"trace-full", warning},
    {"trace-started", info},
    {"tracing", info},
    {"ucx-unrepaired", warning},
    {"unknown-message", warning},
    {"view-missed", info},
    {"waiting-for-cache", info},
    {"waiting-for-model", info},
    {"weights-from-peers", info},
    {"worker-gone", warning},
    {"worker-hung", error},
    {"worker-joined", info},
    {"worker-refused", error},
});

constexpr auto names = std::to_array<std::string_view>({"debug", "info", "warning", "error"});

} // namespace

const char* to_string(log_level level) {
  return names[static_cast<std::size_t>(level)].data();
}

bool read_log_level(std::string_view name, log_level& level) {
  const auto* found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return false;
  level = static_cast<log_level>(found - names.begin());
  return true;
}

std::span<const log_event> log_events() {
  return events;
}

log_level level_of_event(std::string_view name) {
  const auto* found = std::lower_bound(events.begin(), events.end(), name,
                                       [](const log_event& one, std::string_view n) { return one.name < n; });
  return found != events.end() && found->name == name ? found->level : info;
}

} // namespace troupe
