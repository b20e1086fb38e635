// Name lookups that take too long, or fail: this program replaces the system's function.
#include "services/client/name_lookup.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <netdb.h>

#include "services/client/http_client.hpp"

namespace {

std::atomic<int> num_asked{0};
std::promise<void> slow_may_end;
const std::shared_future<void> slow_ends = slow_may_end.get_future().share();

} // namespace

/// Answers for the names of this test: one is slow until it may end, one is unknown; no server is asked.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** result) {
  using system_type = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto system = reinterpret_cast<system_type>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  ++num_asked;
  const std::string name = host;
  if (name == "unknown.example")
    return EAI_NONAME;
  if (name == "slow.example")
    slow_ends.wait();
  return system("127.0.0.1", service, hints, result);
}

namespace troupe {
namespace {

using std::chrono::steady_clock;
using ::testing::StartsWith;
using endpoints_type = std::vector<boost::asio::ip::tcp::endpoint>;

/// The addresses, or the error's text.
std::pair<endpoints_type, std::string> looked_up(const std::string& host,
                                                 std::chrono::milliseconds patience) {
  boost::asio::io_context io;
  std::pair<endpoints_type, std::string> result;
  boost::asio::co_spawn(io, look_up(host, 80, steady_clock::now() + patience),
                        [&](const std::exception_ptr& error, endpoints_type found) {
                          try {
                            if (error)
                              std::rethrow_exception(error);
                            result.first = std::move(found);
                          } catch (const lookup_error& failure) {
                            result.second = failure.what();
                          }
                        });
  io.run();
  return result;
}

/// The error of a request to this host.
std::string failure_of_request(const std::string& host, std::chrono::milliseconds deadline) {
  const server_url server{host, 9, {}, nullptr};
  boost::asio::io_context io;
  std::string text;
  boost::asio::co_spawn(io, exchange(server, "GET", "/health", std::string(), deadline),
                        [&](const std::exception_ptr& error, const http_answer&) {
                          try {
                            if (error)
                              std::rethrow_exception(error);
                          } catch (const http_error& failure) {
                            text = failure.what();
                          }
                        });
  io.run();
  return text;
}

constexpr auto long_enough = std::chrono::minutes{1};

TEST(name_lookup, finds_the_addresses_of_a_name) {
  const auto [found, error] = looked_up("fast.example", long_enough);
  EXPECT_EQ(error, "");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].address().to_string(), "127.0.0.1");
  EXPECT_EQ(found[0].port(), 80);
}

TEST(name_lookup, addresses_are_not_looked_up) {
  const int before = num_asked;
  EXPECT_EQ(looked_up("192.0.2.1", long_enough).first.at(0).address().to_string(), "192.0.2.1");
  EXPECT_EQ(looked_up("::1", long_enough).first.at(0).address().to_string(), "::1");
  EXPECT_EQ(num_asked, before);
}

TEST(name_lookup, an_unknown_name_is_told) {
  EXPECT_EQ(looked_up("unknown.example", long_enough).second,
            "the name 'unknown.example' cannot be looked up: Name or service not known");
  EXPECT_THAT(failure_of_request("unknown.example", long_enough),
              StartsWith("GET /health: the name 'unknown.example' cannot be looked up: "));
}

/// A hanging name is looked up once, for all waiters; the lookup ends when none is waiting.
TEST(name_lookup, a_slow_one_is_not_waited_for) {
  const int before = num_asked;
  const std::string late = "the name 'slow.example' was not looked up in time";
  EXPECT_EQ(looked_up("slow.example", std::chrono::milliseconds{10}).second, late);
  EXPECT_EQ(failure_of_request("slow.example", std::chrono::milliseconds{10}), "GET /health: " + late);
  EXPECT_EQ(looked_up("fast.example", long_enough).first.size(), 1U) << "others are not held up";
  EXPECT_LE(num_asked, before + 2) << "both have waited for one look-up";
  slow_may_end.set_value();
  EXPECT_EQ(looked_up("slow.example", long_enough).first.size(), 1U);
}

} // namespace
} // namespace troupe
