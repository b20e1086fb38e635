#include "services/troupe/gateway_client.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include "services/options/key_file.hpp"

namespace troupe {

namespace {

namespace beast = boost::beast;
namespace bhttp = beast::http;

constexpr auto page_deadline = std::chrono::seconds{10};

/// The sentence inside an error in OpenAI's form, or the beginning of whatever it is.
std::string reason_in(const std::string& body) {
  const auto page = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (page.is_object() && page.contains("error") && page["error"].is_object()
      && page["error"].contains("message") && page["error"]["message"].is_string()) {
    return page["error"]["message"].get<std::string>();
  }
  return body.substr(0, 300);
}

std::string ask(const gateway_address& gateway, const std::string& path,
                bhttp::request<bhttp::string_body> request, std::chrono::seconds deadline) {
  const std::string& url = gateway.url;
  const std::string key = client_api_key(gateway.api_key_file);
  std::string rest = url.starts_with("http://") ? url.substr(7) : url;
  host_port server = parse_host_port(rest.substr(0, rest.find('/')), "--url");
  boost::asio::io_context io;
  beast::tcp_stream stream(io);
  beast::flat_buffer buffer;
  request.set(bhttp::field::host, host_port_text(server.host, server.port));
  if (!key.empty()) {
    request.set(bhttp::field::authorization, "Bearer " + key);
  }
  request.prepare_payload();
  bhttp::response_parser<bhttp::string_body> response;
  response.body_limit(64U << 20);
  boost::asio::ip::tcp::resolver resolver(io);
  boost::system::error_code failure;
  auto endpoints = resolver.resolve(server.host, std::to_string(server.port), failure);
  if (!failure) {
    stream.expires_after(deadline);
    stream.async_connect(endpoints, [&](boost::system::error_code error, const auto&) {
      failure = error;
      if (error) {
        return;
      }
      bhttp::async_write(stream, request, [&](boost::system::error_code write_error, size_t) {
        failure = write_error;
        if (write_error) {
          return;
        }
        bhttp::async_read(stream, buffer, response,
                          [&](boost::system::error_code read_error, size_t) { failure = read_error; });
      });
    });
    io.run();
  }
  if (failure) {
    throw std::runtime_error(url + path + ": " + failure.message());
  }
  if (const unsigned status = response.get().result_int(); status != 200) {
    throw refused_by_gateway(status, url + path + ": status " + std::to_string(status) + " "
                                         + reason_in(response.get().body()));
  }
  return response.get().body();
}

} // namespace

void gateway_address::declare(option_parser& parser) {
  parser.text("url", "URL", "a gateway", &url);
  parser.text(
      "api-key-file", "FILE",
      "send the first key of this file (one a line), where the gateway wants one; default: OPENAI_API_KEY",
      &api_key_file);
}

std::string get_from(const gateway_address& gateway, const std::string& path) {
  return ask(gateway, path, {bhttp::verb::get, path, 11}, page_deadline);
}

std::string post_to(const gateway_address& gateway, const std::string& path, const std::string& json,
                    std::chrono::seconds deadline) {
  bhttp::request<bhttp::string_body> request(bhttp::verb::post, path, 11, json);
  request.set(bhttp::field::content_type, "application/json");
  return ask(gateway, path, std::move(request), deadline);
}

} // namespace troupe
