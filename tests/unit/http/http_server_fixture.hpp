// A server with the scripted backend and the byte codec.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "services/gateway/http/endpoints/routes.hpp"
#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/http_server.hpp"
#include "services/gateway/http/tls_identity.hpp"
#include "tests/unit/http/fake_backend.hpp"
#include "tests/unit/http/fake_codec.hpp"
#include "tests/unit/http/raw_client.hpp"
#include "tests/unit/http/test_certificate.hpp"
#include "tests/unit/http/tls_client.hpp"

namespace troupe::http_test {

using nlohmann::json;

class http_server_test : public testing::Test {
 protected:
  using text_side = std::shared_ptr<const openai::text_codec>;

  http_server_test() {
    config.port = 0;
    config.model_names = {"tiny", "org/other"};
    config.version = "1.2.3";
    config.fingerprint = "fp_1.2.3-0123";
    config.tokenizer_info = R"({"tokenizer_class":"T"})";
    config.requests.max_model_len = 4096;
    config.requests.vocab_size = http_test::vocab_size;
    config.requests.eos_token_ids = {eos};
  }

  /// Starts the server with the test's `config`.
  void serve() {
    backend = std::make_shared<fake_backend>();
    if (play)
      backend->play = play;
    server = std::make_unique<http_server>(config, http::all_routes(), backend, backend,
                                           served_codec ? served_codec : text_side(codec),
                                           std::make_shared<gateway_metrics>(families));
    port = server->port();
  }

  /// Before serve: makes a certificate for "gateway".
  void use_tls() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-tls-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no folder for certificates");
    folder = std::shared_ptr<const std::filesystem::path>(new std::filesystem::path(pattern),
                                                          [](const std::filesystem::path* one) {
                                                            std::filesystem::remove_all(*one);
                                                            delete one;
                                                          });
    certificate = make_certificate(*folder, "gateway");
    config.tls = http::tls_identity::load(certificate.certificate, certificate.key);
  }

  /// A client with or without TLS, like the server.
  std::unique_ptr<raw_client> connect(int receive_buffer_bytes = 0) const {
    if (!config.tls)
      return std::make_unique<raw_client>(port, receive_buffer_bytes);
    tls_client_options options;
    options.trusted = certificate.certificate;
    options.receive_buffer_bytes = receive_buffer_bytes;
    auto client = std::make_unique<tls_client>(port, options);
    EXPECT_TRUE(client->shake_hands());
    return client;
  }

  raw_response post(const std::string& path, const std::string& body, const std::string& headers = {}) const {
    const auto client = connect();
    client->request("POST", path, body, headers);
    return client->read();
  }

  raw_response get(const std::string& path, const std::string& headers = {}) const {
    const auto client = connect();
    client->request("GET", path, {}, headers);
    return client->read();
  }

  /// Sends these bytes and reads the response.
  raw_response tell(const std::string& bytes) const {
    const auto client = connect();
    client->send(bytes);
    return client->read();
  }

  /// The number on /metrics in the line with this beginning; -1 if there is none.
  double metric(const std::string& line) const {
    get("/health"); // afterwards the server has counted all earlier requests
    const std::string page = families->text();
    const std::size_t at = page.find("\n" + line + " ");
    return at == std::string::npos ? -1 : std::stod(page.substr(at + line.size() + 2));
  }

  std::shared_ptr<const std::filesystem::path> folder; ///< of use_tls; removed with the test
  certificate_files certificate;                       ///< of use_tls
  http_server_config config;
  fake_backend::script play;
  std::shared_ptr<metrics::registry> families = std::make_shared<metrics::registry>("troupe_");
  std::shared_ptr<fake_codec> codec = std::make_shared<fake_codec>();
  text_side served_codec; ///< replaces `codec` if set
  std::shared_ptr<fake_backend> backend;
  std::unique_ptr<http_server> server;
  std::uint16_t port = 0;
};

/// Sends some 13,000 tokens, 2 MB as events, and waits to be cancelled.
inline void talk_at_length(fake_job& job) {
  for (int i = 0; i < 200; ++i)
    job.say(0, std::string(64, 'x'));
  EXPECT_TRUE(job.wait_cancelled());
}

/// The `error` of a response in OpenAI's form.
inline json error_of(const raw_response& response) {
  return json::parse(response.body).at("error");
}

} // namespace troupe::http_test
