// The embedded Python and Jinja2 of a template process.
#pragma once

#include "services/gateway/template/template_message.hpp"

namespace troupe::text {

/// Starts Python, isolated from the environment, the user's packages, the working directory and signal
/// handling. Loads everything that templates can use: afterwards no file is opened. Only one per process,
/// because Python cannot be shut down cleanly; for the thread that made it.
class python_renderer {
 public:
  /// @throws std::runtime_error  Python or Jinja2 cannot be started
  python_renderer();

  /// Handles one request, of template_request_strings strings.
  template_answer answer(const template_message& request) const;
};

} // namespace troupe::text
