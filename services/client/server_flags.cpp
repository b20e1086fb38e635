#include "services/client/server_flags.hpp"

#include "services/options/key_file.hpp"

namespace troupe {

void server_flags::declare(option_parser& parser) {
  parser.text("url", "URL", "address of the server: http://HOST:PORT or https://HOST:PORT", &url);
  parser.text("ca-file", "FILE",
              "trust the certificates in this file (PEM) for https://, too: the authority's, or a "
              "self-signed server certificate",
              &ca_file);
  parser.toggle("insecure", "accept any certificate for https://", &insecure);
  parser.text(
      "api-key-file", "FILE",
      "send the first key of this file (one a line) if the server asks for one; default: OPENAI_API_KEY",
      &api_key_file);
}

server_url server_flags::server() const {
  server_url result = parse_url(url, {ca_file, insecure});
  result.api_key = client_api_key(api_key_file);
  return result;
}

} // namespace troupe
