// Which requests are traced: a pure function of what travels with a request, so that all processes agree.
#pragma once

#include <cstdint>

#include "actors/request_context.hpp"

namespace troupe::timeline {

/// A request as a trace names it.
struct trace_identity {
  uint64_t trace_high = 0; ///< the trace id of its traceparent; without one, made of its id
  uint64_t trace_low = 0;
  uint64_t parent_span = 0;   ///< of its traceparent; 0: none
  bool wants_tracing = false; ///< the traceparent's flag `sampled` is set

  /// Names the request in events; never 0.
  uint64_t key() const;
};

/// An id of 32 hexadecimal digits, as the gateway draws them, is the trace id itself.
trace_identity identity_of(const request_context& request);

/// A share of all requests as the largest key that is in it; 0: none.
uint64_t limit_of(double share);

/// Whether a request is among the share, or wants to be traced.
bool is_sampled(const trace_identity& request, uint64_t limit);

} // namespace troupe::timeline
