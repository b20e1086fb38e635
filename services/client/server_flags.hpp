// The flags of a program that asks a server: where it is, and what opens it.
#pragma once

#include <string>

#include "services/client/server_url.hpp"
#include "services/options/option_parser.hpp"

namespace troupe {

struct server_flags {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file; ///< empty: the key of OPENAI_API_KEY, if any
  std::string ca_file;
  bool insecure = false;

  void declare(option_parser& parser);

  /// @throws option_error as parse_url, and what client_api_key throws
  server_url server() const;
};

} // namespace troupe
