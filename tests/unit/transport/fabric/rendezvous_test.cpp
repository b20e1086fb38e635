// The socket on which peers meet, when all of them connect at once.
#include "actors/transport/fabric/rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "actors/transport/caf/transport.hpp"

namespace troupe::wire {
namespace {

using namespace std::chrono_literals;

constexpr auto deadline = 10s; ///< of a handshake; sanitizers are slow

/// Accepts all peers, and records them.
class open_house : public rendezvous::host {
 public:
  introduction introduce() override {
    ++last_;
    return {"node-" + std::to_string(last_), "", "", last_, 1000, 10, "address", ""};
  }

  void forget_token(std::uint64_t) override {}

  std::optional<std::pair<refusal, std::string>> admit(const introduction&) override { return std::nullopt; }

  void met(acquaintance who) override {
    nodes.insert(who.peer.node);
    sockets.push_back(std::move(who.socket)); // a peer that lives
  }

  void missed(const std::string&, const std::string& error, std::optional<refusal>,
              const std::string&) override {
    errors.push_back(error);
  }

  void post(std::function<void()> task) override { task(); }

  void log(const char*, const std::string& text) override { errors.push_back(text); }

  std::set<std::string> nodes;
  std::vector<descriptor> sockets;
  std::vector<std::string> errors;

 private:
  std::uint64_t last_ = 0;
};

TEST(rendezvous_test, all_who_have_lost_their_scheduler_in_the_same_instant_are_let_in) {
  // As many as the listener accepts, or as this process may have descriptors for: two for each.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto max_guests = transport_options{}.max_unauthenticated;
  EXPECT_GE(max_guests, 1000U);
  const auto count = std::min<std::size_t>(max_guests, (limit.rlim_cur - 100) / 2);
  ASSERT_GT(count, 400U) << "this machine lets a process have too few descriptors for this test";

  poller events;
  open_house scheduler;
  open_house workers;
  rendezvous door{events, scheduler, "a secret of the cluster", deadline, max_guests};
  rendezvous callers{events, workers, "a secret of the cluster", deadline, max_guests};
  door.listen({"127.0.0.1", 0});
  const auto endpoint = "127.0.0.1:" + std::to_string(door.port());
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i)
    callers.dial(endpoint); // before any peer is accepted: the kernel's queue holds all of them
  while ((scheduler.nodes.size() < count || workers.sockets.size() < count) && scheduler.errors.empty()
         && workers.errors.empty() && std::chrono::steady_clock::now() - begin < 60s)
    events.wait(100ms);
  EXPECT_EQ(scheduler.errors, std::vector<std::string>{});
  EXPECT_EQ(workers.errors, std::vector<std::string>{});
  EXPECT_EQ(scheduler.nodes.size(), count);
  EXPECT_EQ(workers.sockets.size(), count);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, deadline)
      << "nobody is to miss the handshake's deadline";
}

} // namespace
} // namespace troupe::wire
