// `troupe top` from its beginning to its end.
#pragma once

#include <chrono>
#include <string>

#include "services/top/sampler.hpp"

namespace troupe::top {

struct session_options {
  std::string url; ///< of the server, for the screen
  std::chrono::milliseconds interval{1000};
};

/// Prints the figures of one interval.
/// @throws std::runtime_error when the gateway does not answer
void print_once(sampler source, const session_options& options);

/// Shows one screen after another until q, Ctrl-C or SIGTERM. The terminal is given back before SIGTSTP
/// (Ctrl-Z) stops the process and SIGQUIT (Ctrl-\) ends it, and taken again at SIGCONT. While the gateway
/// does not answer the screen says so, and it is asked again.
void watch(sampler source, const session_options& options);

} // namespace troupe::top
