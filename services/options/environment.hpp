// Variables of the environment that begin as those of flags do, and are none of this program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "services/options/option_parser.hpp"

namespace troupe {

/// Whether a variable is one of those that Kubernetes gives every container for each Service of its
/// namespace, in the form of Docker's links: a Service named `troupe` gives TROUPE_PORT=tcp://10.0.0.1:8000,
/// TROUPE_SERVICE_HOST, TROUPE_SERVICE_PORT_HTTP, TROUPE_PORT_8000_TCP_ADDR and others. Nobody meant a flag
/// by them.
bool is_service_link(std::string_view name, std::string_view value);

/// Those variables that begin with TROUPE_ and that this program does not read.
struct unread_variables {
  std::vector<std::string> service_links; ///< by name, in the order of the environment
  std::vector<std::string> unknown;       ///< that nothing of ours reads: misspelt, perhaps

  /// A sentence for each kind that there is, for the log.
  std::vector<std::string> notes() const;
  /// Takes them out of this process's environment, so that its children do not tell of them again.
  void remove() const;
};

/// @param parser  of this program; what other programs of ours read, or our tests, is not reported either
unread_variables find_unread_variables(const option_parser& parser);

} // namespace troupe
