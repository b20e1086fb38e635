#include "services/metrics/catalogue_entries.hpp"

namespace troupe::metrics {

namespace {

constexpr const char* of_peers = "not in `troupe serve`, which has no peers";
constexpr const char* of_engines = "attention and expert workers";

/// Prometheus' own name of a figure of the operating system, which has no prefix.
family_spec process_figure(const char* name, family_type type, const char* help) {
  family_spec result{name, type, help};
  result.has_prefix = false;
  return result;
}

std::vector<label_spec> peer_roles() {
  return {{"peer", {"gateway", "scheduler", "attention", "expert", "other"}}};
}

} // namespace

std::vector<family_spec> common_entries() {
  return {
      {"build_info",
       gauge,
       "Always 1; the labels name the program",
       {{"version", {}, "of the release"},
        {"revision", {}, "the commit, `unknown` where the build had none"},
        {"compiler", {}, "its name and version"},
        {"numerics", {}, "the numerics class, `none` where nothing is computed"}}},
      process_figure("process_cpu_seconds_total", counter,
                     "CPU time of the process, in user and kernel mode"),
      process_figure("process_resident_memory_bytes", gauge, "Resident memory of the process"),
      process_figure("process_virtual_memory_bytes", gauge, "Address space of the process"),
      process_figure("process_open_fds", gauge, "Open file descriptors"),
      process_figure("process_max_fds", gauge, "Limit of process_open_fds"),
      process_figure("process_threads", gauge, "Threads of the process"),
      process_figure("process_start_time_seconds", gauge, "Start time of the process, since the epoch"),

      {"engine_step_age_seconds",
       gauge,
       "Age of the oldest unfinished step of the engine, at the last renewal of the lease; 0: none",
       {{"engine", {"attention", "expert"}}},
       nullptr,
       of_engines},
      {"engine_step_limit_seconds",
       gauge,
       "Value of engine_step_age_seconds above which the worker is fenced",
       {{"engine", {"attention", "expert"}}},
       nullptr,
       of_engines},

      {"weights_loaded_bytes",
       gauge,
       "Bytes done of the current or last packing or loading of weights: a cache, the attention side, the "
       "experts of an order",
       {},
       nullptr,
       of_engines},
      {"weights_to_load_bytes",
       gauge,
       "Value of weights_loaded_bytes at the end, as far as known; 0: unknown",
       {},
       nullptr,
       of_engines},

      {"transport_bytes_sent_total", counter, "Bytes of messages to peers", {}, nullptr, of_peers},
      {"transport_bytes_received_total", counter, "Bytes of messages from peers", {}, nullptr, of_peers},
      {"transport_messages_sent_total", counter, "Messages to peers", {}, nullptr, of_peers},
      {"transport_messages_received_total", counter, "Messages from peers", {}, nullptr, of_peers},
      {"transport_messages_refused_total",
       counter,
       "Messages to peers that were not sent: the window is full, or they are too large",
       {},
       nullptr,
       of_peers},
      {"transport_stray_messages_total",
       counter,
       "Messages from fenced or unknown peers",
       {},
       nullptr,
       of_peers},
      {"transport_peers", gauge, "Connected processes", {}, nullptr, of_peers},
      {"transport_messages_withheld_total",
       counter,
       "Messages not sent because the peer's version does not know their kind",
       {},
       nullptr,
       of_peers},
      {"transport_messages_unknown_total",
       counter,
       "Messages received and dropped because this version does not know their kind",
       {},
       nullptr,
       of_peers},
      {"transport_peers_lost_total", counter, "Connections to peers that have ended", {}, nullptr, of_peers},
      {"transport_unacknowledged_bytes",
       gauge,
       "Bytes sent and not yet handled by the receiving actors, over all peers, by lane",
       {{"lane", {"urgent", "bulk"}}},
       nullptr,
       of_peers},
      {"transport_unacknowledged_bytes_limit",
       gauge,
       "Limit of sent and unhandled bytes for one peer and lane",
       {},
       nullptr,
       of_peers},
      {"transport_pending_requests",
       gauge,
       "Requests to peers that wait for an answer",
       {},
       nullptr,
       of_peers},
      {"transport_slowest_round_trip_seconds", gauge,
       "Round trip to the slowest peer of a role, as the kernel measures it on the connection; 0: no peer",
       peer_roles(), nullptr, of_peers},
      {"transport_mean_round_trip_seconds", gauge, "Mean of these round trips over the peers of a role",
       peer_roles(), nullptr, of_peers},
      {"transport_wake_ups_total",
       counter,
       "Number of times that the network thread went to sleep",
       {},
       nullptr,
       of_peers},
  };
}

} // namespace troupe::metrics
