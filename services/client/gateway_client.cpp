#include "services/client/gateway_client.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "services/client/ask_gateway.hpp"
#include "services/client/terminal_text.hpp"

namespace troupe {

namespace {

/// The message of an error in OpenAI's form; of any other body its beginning.
std::string reason_in(const std::string& body) {
  const auto page = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (page.is_object() && page.contains("error") && page["error"].is_object()
      && page["error"].contains("message") && page["error"]["message"].is_string())
    return printable(page["error"]["message"].get<std::string>());
  return excerpt(body, 300);
}

/// The body of an answer of a gateway.
/// @throws refused_by_gateway
std::string body_of(http_answer answer, const std::string& asked) {
  if (answer.status != 200) {
    throw refused_by_gateway(answer.status, asked + ": status " + std::to_string(answer.status) + " "
                                                + reason_in(answer.body));
  }
  return std::move(answer.body);
}

std::string ask(const server_flags& gateway, const std::string& method, const std::string& path,
                const std::string& body, std::chrono::seconds deadline) {
  const server_url server = gateway.server();
  http_answer answer;
  try {
    answer = fetch(server, method, path, body, deadline);
  } catch (const http_error& error) {
    throw std::runtime_error(gateway.url + ": " + error.what());
  }
  return body_of(std::move(answer), gateway.url + path);
}

} // namespace

boost::asio::awaitable<std::string> ask_gateway(const server_url& server, std::string url, std::string method,
                                                std::string path, std::string json,
                                                std::chrono::milliseconds deadline) {
  http_answer answer;
  try {
    answer = co_await exchange(server, std::move(method), path, std::move(json), deadline);
  } catch (const http_error& error) {
    throw std::runtime_error(url + ": " + error.what());
  }
  co_return body_of(std::move(answer), url + path);
}

std::string get_from(const server_flags& gateway, const std::string& path) {
  return ask(gateway, "GET", path, {}, page_deadline);
}

std::string post_to(const server_flags& gateway, const std::string& path, const std::string& json,
                    std::chrono::seconds deadline) {
  return ask(gateway, "POST", path, json, deadline);
}

} // namespace troupe
