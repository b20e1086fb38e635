// One line of the access log: a request whose answer has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troupe::http {

struct access_record {
  std::string method;      ///< empty: no request could be read
  std::string path;        ///< decoded, without query
  unsigned status = 0;     ///< 499: the client left before there was an answer
  std::uint64_t bytes = 0; ///< sent, headers included
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> output_tokens;
  std::optional<double> queue_seconds;       ///< until the first prompt was assigned to a worker
  std::optional<double> first_token_seconds; ///< since the request began to run
  double total_seconds = 0;                  ///< from the request's first byte to the last one sent
  std::string finish;                        ///< finish reasons of the choices, separated by commas
  std::string key_name;
  std::string client; ///< address and port
  std::string request_id;
  std::string traceparent;
  std::string error; ///< empty: the request succeeded
};

/// Takes a record. Called from any thread; neither blocks nor throws. May be empty.
using access_listener = std::function<void(const access_record&)>;

} // namespace troupe::http
