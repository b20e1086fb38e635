// The embedded Python of a template process, and Jinja2 in it.
#pragma once

#include "services/gateway/template/template_message.hpp"

namespace troupe::text {

/// Starts Python in this process, isolated from the environment, the user's packages, the working directory
/// and signal handling, and loads all that templates can ask for: afterwards no file is opened any more.
/// One a process, since Python cannot be shut down cleanly; to be used by the thread that made it.
class python_renderer {
 public:
  /// @throws std::runtime_error when Python or Jinja2 cannot be started
  python_renderer();

  /// Carries out one request, of template_request_strings strings.
  template_answer answer(const template_message& request) const;
};

} // namespace troupe::text
