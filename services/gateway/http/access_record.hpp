// What is known of a request once its answer has ended, for the access log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troupe::http {

struct access_record {
  std::string method;  ///< empty: no request could be read
  std::string path;    ///< decoded, without query
  unsigned status = 0; ///< 499: the client left before there was an answer
  uint64_t bytes = 0;  ///< sent, headers included
  std::optional<uint64_t> prompt_tokens;
  std::optional<uint64_t> output_tokens;
  std::optional<double> queue_seconds;       ///< until the first prompt had a worker
  std::optional<double> first_token_seconds; ///< since the plan was begun
  double total_seconds = 0;                  ///< from the request's first byte to the last one sent
  std::string finish;                        ///< of each choice, with commas between them
  std::string key_name;
  std::string client; ///< address and port
  std::string request_id;
  std::string traceparent;
  std::string error; ///< why it went wrong; empty: it did not
};

/// Takes a record; called from any thread, neither blocks nor throws. May be empty.
using access_listener = std::function<void(const access_record&)>;

} // namespace troupe::http
