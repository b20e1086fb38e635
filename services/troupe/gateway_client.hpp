// One question over HTTP to the gateway of a running cluster.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

#include "services/options/option_parser.hpp"

namespace troupe {

/// Which gateway is asked, and with which key.
struct gateway_address {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file; ///< empty: the key of OPENAI_API_KEY, if any

  void declare(option_parser& parser);
};

/// The gateway has answered with another status than 200; what() names the URL and says why.
struct refused_by_gateway : std::runtime_error {
  refused_by_gateway(unsigned http_status, const std::string& text)
      : std::runtime_error(text), status(http_status) {}

  unsigned status;
};

/// @returns the body
/// @throws refused_by_gateway, and std::runtime_error that names the URL when there is no answer
std::string get_from(const gateway_address& gateway, const std::string& path);

/// @param json  the body
/// @param deadline  for connection and answer together
/// @throws as get_from
std::string post_to(const gateway_address& gateway, const std::string& path, const std::string& json,
                    std::chrono::seconds deadline);

} // namespace troupe
