// Permissions: every route, at every port, with every kind of key.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>

#include "services/gateway/http/endpoints/routes.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using http::callers;

/// The callers of each route. A missing route fails `every_route_has_its_callers`.
const std::map<std::string, callers> rights = {
    {"GET /cluster", callers::operators},
    {"GET /cluster/history", callers::operators},
    {"GET /cluster/placement", callers::operators},
    {"POST /cluster/placement", callers::operators},
    {"POST /cluster/trace", callers::operators},
    {"GET /metrics", callers::operators},
    {"GET /health", callers::anybody},
    {"GET /ready", callers::anybody},
    {"GET /cluster/ready", callers::anybody},
    {"GET /tokenizer_info", callers::clients},
    {"GET /version", callers::clients},
    {"GET /v1/models", callers::clients},
    {"GET /v1/models/", callers::clients},
    {"POST /v1/completions", callers::clients},
    {"POST /v1/chat/completions", callers::clients},
    {"POST /tokenize", callers::clients},
    {"POST /detokenize", callers::clients},
};

constexpr const char* client = "authorization: Bearer of-a-client\r\n";
constexpr const char* op = "api-key: of-an-operator\r\n";
constexpr const char* unknown = "api-key: of-nobody\r\n";
constexpr const char* nobody = "";

class rights_test : public http_server_test {
 protected:
  void use_keys() {
    config.keys = http::api_keys::of({{"alice", "of-a-client"}}, {{"olga", "of-an-operator"}});
  }

  /// A route's answer at the API's port; most routes reject the request as invalid.
  raw_response asked(const http::route& one, const std::string& headers) const {
    const std::string path = one.path + std::string(std::string_view(one.path).ends_with('/') ? "tiny" : "");
    return one.post ? post(path, "[]", headers) : get(path, headers);
  }
};

std::string name_of(const http::route& one) {
  return (one.post ? "POST " : "GET ") + std::string(one.path);
}

bool is_let_in(const raw_response& answer) {
  return answer.status != 0 && answer.status != 401 && answer.status != 403;
}

} // namespace

TEST(rights, every_route_has_its_callers) {
  std::map<std::string, callers> served;
  for (const http::route& one : http::all_routes())
    served[name_of(one)] = one.who;
  EXPECT_THAT(served, testing::ContainerEq(rights));
}

TEST_F(rights_test, keys_open_what_is_theirs) {
  use_keys();
  serve();
  for (const http::route& one : http::all_routes()) {
    SCOPED_TRACE(name_of(one));
    const bool open = one.who == callers::anybody;
    EXPECT_TRUE(is_let_in(asked(one, op)));
    EXPECT_EQ(is_let_in(asked(one, client)), one.who != callers::operators);
    EXPECT_EQ(asked(one, nobody).status == 401, !open);
    EXPECT_EQ(asked(one, unknown).status == 401, !open);
    if (one.who == callers::operators) {
      const raw_response refused = asked(one, client);
      EXPECT_EQ(refused.status, 403);
      EXPECT_EQ(error_of(refused)["code"], "operators_only");
      EXPECT_THAT(error_of(refused)["message"].get<std::string>(), testing::HasSubstr("--operator-key-file"));
    }
  }
}

TEST_F(rights_test, without_an_operators_key_clients_are_none) {
  config.keys = http::api_keys{{"of-a-client"}};
  serve();
  for (const http::route& one : http::all_routes())
    if (one.who == callers::operators) {
      EXPECT_EQ(asked(one, client).status, 403) << one.path;
      EXPECT_EQ(asked(one, nobody).status, 401) << one.path;
    }
}

TEST_F(rights_test, keys_of_operators_alone_leave_clients_free) {
  config.keys = http::api_keys::of({}, {{"olga", "of-an-operator"}});
  serve();
  for (const http::route& one : http::all_routes()) {
    EXPECT_EQ(is_let_in(asked(one, nobody)), one.who != callers::operators) << one.path;
    EXPECT_TRUE(is_let_in(asked(one, op))) << one.path;
  }
}

TEST_F(rights_test, without_keys_operators_are_programs_on_the_machine) {
  serve();
  for (const http::route& one : http::all_routes()) {
    SCOPED_TRACE(name_of(one));
    EXPECT_TRUE(is_let_in(asked(one, nobody)));
    if (one.who != callers::operators)
      continue;
    for (const char* sign : {"X-Forwarded-For: 192.0.2.1\r\n", "Forwarded: for=192.0.2.1\r\n",
                             "Origin: http://localhost\r\nContent-Type: application/json\r\n"}) {
      const raw_response refused = asked(one, sign);
      EXPECT_EQ(refused.status, 403) << sign;
      EXPECT_EQ(error_of(refused)["code"], "operators_only");
    }
    const std::string request = std::string(one.post ? "POST " : "GET ") + one.path;
    EXPECT_EQ(tell(request + " HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n").status, 403);
  }
}

namespace {

/// An external address of this machine; empty if it has none.
std::string outer_address() {
  ifaddrs* all = nullptr;
  std::string found;
  if (getifaddrs(&all) != 0)
    return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET)
      continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    if (!std::string_view(text).starts_with("127."))
      found = text;
  }
  freeifaddrs(all);
  return found;
}

/// The status line of the answer to a client at that address.
std::string first_line_from(const std::string& address, std::uint16_t port, const std::string& request) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &there.sin_addr);
  std::string line;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0
      && ::send(connection, request.data(), request.size(), MSG_NOSIGNAL)
             == static_cast<ssize_t>(request.size())) {
    char bytes[512];
    const ssize_t got = recv(connection, bytes, sizeof bytes, 0);
    line.assign(bytes, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  close(connection);
  return line.substr(0, line.find('\r'));
}

} // namespace

TEST_F(rights_test, without_keys_the_network_has_no_operators) {
  const std::string address = outer_address();
  if (address.empty())
    GTEST_SKIP() << "this machine has loopback addresses alone";
  config.host = "0.0.0.0";
  serve();
  for (const http::route& one : http::all_routes()) {
    const std::string request = std::string(one.post ? "POST " : "GET ") + one.path
                                + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    EXPECT_EQ(first_line_from(address, port, request) == "HTTP/1.1 403 Forbidden",
              one.who == callers::operators)
        << one.path;
  }
}

TEST_F(rights_test, the_management_port_shows_and_changes_nothing) {
  config.management_port = 0;
  use_keys();
  serve();
  for (const http::route& one : http::all_routes()) {
    SCOPED_TRACE(name_of(one));
    for (const char* key : {nobody, client, op}) {
      const auto answer = ask(server->management_port(), one.post ? "POST" : "GET", one.path, {}, key);
      if (one.post)
        EXPECT_EQ(answer.status, 405);
      else if (one.who == callers::clients && name_of(one) != "GET /version")
        EXPECT_EQ(answer.status, 404);
      else
        EXPECT_EQ(answer.status, 200);
    }
  }
  const auto windows = [&](const std::string& query) {
    const auto page = ask(server->management_port(), "GET", "/cluster/history" + query);
    return json::parse(page.body)["windows"].size();
  };
  EXPECT_EQ(windows("?windows=0"), 0U);
  EXPECT_GT(windows(""), 0U);
}

TEST_F(rights_test, keys_are_read_from_their_files) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "rights_test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream{folder / name} << text;
    std::filesystem::permissions(folder / name, std::filesystem::perms{0600});
    return folder / name;
  };
  const auto clients = write("clients", "alice of-a-client\nof-bob\n");
  const auto operators = write("operators", "of-an-operator\n");
  const auto keys = http::api_keys::load(clients, operators);
  EXPECT_THAT(keys.names(), testing::ElementsAre("alice", "key-2", "operator-1"));
  ASSERT_NE(keys.find("of-an-operator"), nullptr);
  EXPECT_TRUE(keys.find("of-an-operator")->is_operators);
  EXPECT_FALSE(keys.find("of-bob")->is_operators);
  const auto both = write("both", "olga of-a-client\n");
  try {
    http::api_keys::load(clients, both);
    FAIL() << "it is taken";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), "API key file " + both.string() + ": the key of olga is in "
                                         + clients.string() + " too, as that of the client alice");
  }
  std::filesystem::remove_all(folder);
}

} // namespace troupe::http_test
