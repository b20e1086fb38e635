#include "services/troupe/gateway_client.hpp"

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

namespace troupe {

namespace {

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

std::string ask(const server_flags& gateway, const std::string& method, const std::string& path,
                const std::string& body, std::chrono::seconds deadline) {
  const server_url server = gateway.server();
  boost::asio::io_context io;
  http_answer answer;
  std::exception_ptr failure;
  boost::asio::co_spawn(io, exchange(server, method, path, body, deadline),
                        [&](std::exception_ptr error, http_answer what) {
                          failure = std::move(error);
                          answer = std::move(what);
                        });
  io.run();
  try {
    if (failure) {
      std::rethrow_exception(failure);
    }
  } catch (const http_error& error) {
    throw std::runtime_error(gateway.url + ": " + error.what());
  }
  if (answer.status != 200) {
    throw refused_by_gateway(answer.status, gateway.url + path + ": status " + std::to_string(answer.status)
                                                + " " + reason_in(answer.body));
  }
  return answer.body;
}

} // namespace

std::string get_from(const server_flags& gateway, const std::string& path) {
  return ask(gateway, "GET", path, {}, page_deadline);
}

std::string post_to(const server_flags& gateway, const std::string& path, const std::string& json,
                    std::chrono::seconds deadline) {
  return ask(gateway, "POST", path, json, deadline);
}

} // namespace troupe
