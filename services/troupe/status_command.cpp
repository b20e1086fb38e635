#include <chrono>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "services/options/key_file.hpp"
#include "services/options/option_parser.hpp"
#include "services/troupe/commands.hpp"
#include "services/troupe/status_table.hpp"

namespace troupe {

namespace {

namespace beast = boost::beast;
namespace bhttp = beast::http;

/// One GET with a deadline.
/// @param key  to be sent with it; empty: none
/// @throws std::runtime_error that names the URL
std::string fetch(const std::string& url, const std::string& path, const std::string& key) {
  std::string rest = url.starts_with("http://") ? url.substr(7) : url;
  host_port server = parse_host_port(rest.substr(0, rest.find('/')), "--url");
  boost::asio::io_context io;
  beast::tcp_stream stream(io);
  beast::flat_buffer buffer;
  bhttp::request<bhttp::empty_body> request(bhttp::verb::get, path, 11);
  request.set(bhttp::field::host, host_port_text(server.host, server.port));
  if (!key.empty()) {
    request.set(bhttp::field::authorization, "Bearer " + key);
  }
  bhttp::response_parser<bhttp::string_body> response;
  response.body_limit(64U << 20);
  boost::asio::ip::tcp::resolver resolver(io);
  boost::system::error_code failure;
  auto endpoints = resolver.resolve(server.host, std::to_string(server.port), failure);
  if (!failure) {
    stream.expires_after(std::chrono::seconds{10});
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
  if (response.get().result_int() != 200) {
    throw std::runtime_error(url + path + ": status " + std::to_string(response.get().result_int()) + " "
                             + response.get().body().substr(0, 300));
  }
  return response.get().body();
}

} // namespace

int status_command(const std::vector<std::string>& arguments) {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key_file;
  bool as_json = false;
  option_parser parser("troupe status", "Shows workers, placement and load of a running cluster.");
  parser.text("url", "URL", "a gateway", &url);
  parser.text(
      "api-key-file", "FILE",
      "send the first key of this file (one a line), where the gateway wants one; default: OPENAI_API_KEY",
      &api_key_file);
  parser.toggle("json", "print all there is, as JSON: every expert with its hosts", &as_json);
  if (parser.parse(arguments) == option_parser::outcome::help) {
    return 0;
  }
  std::string page = fetch(url, "/cluster", client_api_key(api_key_file));
  std::cout << (as_json ? page + "\n" : status_table(page));
  return 0;
}

} // namespace troupe
