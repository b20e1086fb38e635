// An operator's command what to trace, from a gateway to all processes of the cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <caf/type_id.hpp>

#include "actors/protocol/declare_inspect.hpp"
#include "actors/protocol/first_type_ids.hpp"

namespace troupe {

/// Trace this share of the requests from now on; replaces the previous command.
struct trace_command {
  std::uint32_t share_ppm = 0; ///< millionths; 0: stop
  bool operator==(const trace_command&) const = default;
};

/// The result of a trace_command in one process.
struct trace_answer {
  std::string name;  ///< name of its worker, or "scheduler"
  std::string error; ///< why it does not trace; empty: it obeys
  bool operator==(const trace_answer&) const = default;
};

struct trace_receipt {
  std::vector<trace_answer> processes;
  bool operator==(const trace_receipt&) const = default;
};

TROUPE_DECLARE_INSPECT(trace_command)
TROUPE_DECLARE_INSPECT(trace_answer)
TROUPE_DECLARE_INSPECT(trace_receipt)

} // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_trace, troupe::first_type_id::of_trace)
  CAF_ADD_TYPE_ID(troupe_trace, (troupe::trace_command))
  CAF_ADD_TYPE_ID(troupe_trace, (troupe::trace_receipt))
CAF_END_TYPE_ID_BLOCK(troupe_trace)
