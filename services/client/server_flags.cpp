#include "services/client/server_flags.hpp"

#include "services/options/key_file.hpp"

namespace troupe {

void server_flags::declare(option_parser& parser) {
  parser.text("url", "URL", "the server: http://HOST:PORT or https://HOST:PORT", &url);
  parser.text("ca-file", "FILE",
              "for https://, trust the certificates of this file (PEM), too: that of who signs the server's, "
              "or the server's own where it is self-signed",
              &ca_file);
  parser.toggle("insecure", "for https://, take any certificate", &insecure);
  parser.text(
      "api-key-file", "FILE",
      "send the first key of this file (one a line), where the server wants one; default: OPENAI_API_KEY",
      &api_key_file);
}

server_url server_flags::server() const {
  server_url result = parse_url(url, {ca_file, insecure});
  result.api_key = client_api_key(api_key_file);
  return result;
}

} // namespace troupe
