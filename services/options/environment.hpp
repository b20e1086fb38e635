// Environment variables that look like flags of this program and are none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/options/option_parser.hpp"

namespace troupe {

/// Whether a variable is one of those that Kubernetes gives every container for each Service of its
/// namespace, in the form of Docker's links: a Service named `troupe` gives TROUPE_PORT=tcp://10.0.0.1:8000,
/// TROUPE_SERVICE_HOST, TROUPE_SERVICE_PORT_HTTP, TROUPE_PORT_8000_TCP_ADDR and others, which mean no flags.
bool is_service_link(std::string_view name, std::string_view value);

/// Variables that begin with TROUPE_ and that this program does not read.
struct unread_variables {
  std::vector<std::string> service_links; ///< by name, in the order of the environment
  std::vector<std::string> unknown;       ///< that no program of this project reads: possibly misspelt

  /// For the log: one sentence for each list that is not empty.
  std::vector<std::string> notes() const;
  /// Removes them from this process's environment, so that its children do not report them again.
  void remove() const;
};

/// Variables that other programs or tests of this project read are not reported.
/// @param parser  of this program
unread_variables find_unread_variables(const option_parser& parser);

} // namespace troupe
