// One question over HTTP to the gateway of a running cluster.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

#include "services/client/server_flags.hpp"

namespace troupe {

/// Deadline for a page of a gateway.
constexpr auto page_deadline = std::chrono::seconds{10};

/// The gateway has answered with another status than 200; what() names the URL and says why.
struct refused_by_gateway : std::runtime_error {
  refused_by_gateway(unsigned http_status, const std::string& text)
      : std::runtime_error(text), status(http_status) {}

  unsigned status;
};

/// @returns the body
/// @throws refused_by_gateway, and std::runtime_error that names the URL when there is no answer
std::string get_from(const server_flags& gateway, const std::string& path);

/// @param json  the body
/// @param deadline  for connection and answer together
/// @throws as get_from
std::string post_to(const server_flags& gateway, const std::string& path, const std::string& json,
                    std::chrono::seconds deadline);

} // namespace troupe
