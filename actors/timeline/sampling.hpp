// Which requests are traced: a pure function of what travels with a request, so that all processes agree.
#pragma once

#include <cstdint>

#include "actors/protocol/request_context.hpp"

namespace troupe::timeline {

/// A request's identity in a trace.
struct trace_identity {
  std::uint64_t trace_high = 0; ///< trace id of its traceparent; without one, derived from its id
  std::uint64_t trace_low = 0;
  std::uint64_t parent_span = 0; ///< of its traceparent; 0: none
  bool wants_tracing = false;    ///< the traceparent's flag `sampled` is set

  /// The request's key in events; never 0.
  std::uint64_t key() const;
};

/// An id of 32 hexadecimal digits, as gateways draw them, is the trace id itself.
trace_identity identity_of(const request_context& request);

/// A share of all requests as the largest traced key; 0: none.
std::uint64_t limit_of(double share);

/// Whether a request is in the share, or requests tracing.
bool is_sampled(const trace_identity& request, std::uint64_t limit);

} // namespace troupe::timeline
