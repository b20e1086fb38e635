// The HTTP server with a scripted backend, so that the client test needs no model: prints its port, and
// serves until its standard input ends.
#include <cstdio>
#include <iostream>

#include "services/gateway/http/endpoints/routes.hpp"
#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/http_server.hpp"
#include "tests/unit/http/fake_backend.hpp"
#include "tests/unit/http/fake_codec.hpp"

int main() {
  using namespace troupe;
  http_server_config config;
  config.port = 0;
  config.model_names = {"scripted"};
  config.version = "test";
  config.requests.max_model_len = 4096;
  config.requests.vocab_size = http_test::vocab_size;
  config.requests.eos_token_ids = {http_test::eos};
  auto backend = std::make_shared<http_test::fake_backend>();
  http_server server{std::move(config),
                     http::all_routes(),
                     backend,
                     backend,
                     std::make_shared<http_test::fake_codec>(),
                     std::make_shared<gateway_metrics>(std::make_shared<metrics::registry>())};
  std::printf("%u\n", static_cast<unsigned>(server.port()));
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
  }
  server.stop(std::chrono::seconds{5});
  return 0;
}
