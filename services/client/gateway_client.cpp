#include "services/client/gateway_client.hpp"

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "services/client/terminal_text.hpp"

namespace troupe {

namespace {

/// The sentence inside an error in OpenAI's form, or the beginning of whatever it is.
std::string reason_in(const std::string& body) {
  const auto page = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (page.is_object() && page.contains("error") && page["error"].is_object()
      && page["error"].contains("message") && page["error"]["message"].is_string()) {
    return printable(page["error"]["message"].get<std::string>());
  }
  return excerpt(body, 300);
}

std::string ask(const server_flags& gateway, const std::string& method, const std::string& path,
                const std::string& body, std::chrono::seconds deadline) {
  const server_url server = gateway.server();
  boost::asio::io_context io;
  std::string answer;
  std::exception_ptr failure;
  boost::asio::co_spawn(io, ask_gateway(server, gateway.url, method, path, body, deadline),
                        [&](std::exception_ptr error, std::string what) {
                          failure = std::move(error);
                          answer = std::move(what);
                        });
  io.run();
  if (failure) {
    std::rethrow_exception(failure);
  }
  return answer;
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
  if (answer.status != 200) {
    throw refused_by_gateway(answer.status, url + path + ": status " + std::to_string(answer.status) + " "
                                                + reason_in(answer.body));
  }
  co_return std::move(answer.body);
}

std::string get_from(const server_flags& gateway, const std::string& path) {
  return ask(gateway, "GET", path, {}, page_deadline);
}

std::string post_to(const server_flags& gateway, const std::string& path, const std::string& json,
                    std::chrono::seconds deadline) {
  return ask(gateway, "POST", path, json, deadline);
}

} // namespace troupe
