// An operator's word on what is traced, from a gateway to all processes of the cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/transport/wire/extensible.hpp"

namespace troupe {

/// Trace this share of the requests from now on, in place of what was said before.
struct trace_command {
  uint32_t share_ppm = 0; ///< millionths; 0: stop
  bool operator==(const trace_command&) const = default;
};

/// What one process has made of it.
struct trace_answer {
  std::string name;  ///< of its worker, or "scheduler"
  std::string error; ///< why it does not trace; empty: it does as told
  bool operator==(const trace_answer&) const = default;
};

struct trace_receipt {
  std::vector<trace_answer> processes;
  bool operator==(const trace_receipt&) const = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, trace_command& x) {
  return extensible(f, "trace_command", x.share_ppm);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, trace_answer& x) {
  return extensible(f, "trace_answer", x.name, x.error);
}

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, trace_receipt& x) {
  return extensible(f, "trace_receipt", x.processes);
}

} // namespace troupe
