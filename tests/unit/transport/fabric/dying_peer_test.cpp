// UCX 1.13 aborts in several ways when a peer dies while the two are connecting. Peers here are processes
// that halt at a certain step and are killed there. A separate program, because it forks before UCX starts.
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/transport/fabric/ucx_worker.hpp"
#include "tests/protocol/unreported_leaks.hpp"

namespace troupe::wire {
namespace {

// Only a test that fails waits this long.
constexpr std::chrono::seconds patience{60};

constexpr int num_peers = 12; // for each test; which of two connections survives is random

struct nobody : ucx_worker::handler {
  bool arrived(const ucx_worker::arrival&) override { return false; }
};

struct endpoint : ucx_worker::endpoint_owner {
  void endpoint_failed(const char*) override { failed = true; }

  bool failed = false;
};

struct message : ucx_worker::operation {
  void ended(bool) override { under_way = false; }

  void post(ucx_worker& by, ucp_ep* to) {
    under_way = by.post(to, head, {}, *this) == ucx_worker::outcome::pending;
  }

  std::array<std::byte, 64> head{};
  bool under_way = false;
};

ucx_settings loopback() {
  ucx_settings result;
  result.net_devices = "lo";
  return result;
}

template <class Predicate>
bool progress_until(ucx_worker& worker, Predicate holds) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds(worker.progress()))
    if (std::chrono::steady_clock::now() >= end)
      return false;
  return true;
}

bool something_happened(unsigned count) {
  return count > 0;
}

bool nothing_happened(unsigned count) {
  return count == 0;
}

void write_text(int fd, const std::string& text) {
  const auto size = text.size();
  if (::write(fd, &size, sizeof(size)) != sizeof(size)
      || ::write(fd, text.data(), size) != static_cast<ssize_t>(size))
    _exit(1);
}

// Fits into a pipe, so it arrives complete.
std::optional<std::string> read_text(int fd) {
  std::size_t size = 0;
  if (::read(fd, &size, sizeof(size)) != sizeof(size))
    return std::nullopt;
  std::string result(size, '\0');
  if (::read(fd, result.data(), size) != static_cast<ssize_t>(size))
    return std::nullopt;
  return result;
}

enum class deed : char { connects = 'c', sends = 's' };

[[noreturn]] void live(int from_test, int to_test) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto what = read_text(from_test);
  const auto address = read_text(from_test);
  if (!what || !address)
    _exit(0);
  nobody owner;
  ucx_worker worker(loopback(), owner);
  write_text(to_test, worker.address());
  endpoint connection;
  auto* const to = worker.connect(*address, connection);
  message first;
  if (what->front() == static_cast<char>(deed::sends)) {
    first.post(worker, to);
    progress_until(worker, something_happened); // the connection stands, and the message is on its way
  }
  write_text(to_test, "done");
  for (;;)
    pause();
}

class peer {
 public:
  peer() {
    std::array<int, 2> orders{};
    std::array<int, 2> reports{};
    if (pipe(orders.data()) != 0 || pipe(reports.data()) != 0)
      throw std::runtime_error("pipe failed");
    pid_ = fork();
    if (pid_ == 0) {
      ::close(orders[1]);
      ::close(reports[0]);
      live(orders[0], reports[1]);
    }
    ::close(orders[0]);
    ::close(reports[1]);
    to_ = orders[1];
    from_ = reports[0];
  }

  /// Starts it; returns its address.
  std::string start(deed what, const ucx_worker& survivor) const {
    write_text(to_, {static_cast<char>(what)});
    write_text(to_, survivor.address());
    return read_text(from_).value();
  }

  bool has_done() const {
    pollfd report{from_, POLLIN, 0};
    return poll(&report, 1, 0) == 1;
  }

  void await_deed() const { EXPECT_EQ(read_text(from_), "done"); }

  void kill() const {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    ::close(to_);
    ::close(from_);
  }

 private:
  int pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

class dying_peer_test : public testing::Test {
 protected:
  // For all tests at once, before UCX starts in this process.
  static void SetUpTestSuite() { peers = std::vector<peer>(std::size_t{3} * num_peers + 1); }

  static peer next_peer() {
    const auto result = peers.back();
    peers.pop_back();
    return result;
  }

  // Receives the message of `who`, which then halts without an answer.
  static void meet_sender(const peer& who, ucx_worker& by) {
    who.start(deed::sends, by);
    EXPECT_TRUE(progress_until(by, [&who](unsigned) { return who.has_done(); }));
    who.await_deed();
    EXPECT_TRUE(progress_until(by, nothing_happened));
  }

  // The survivor notices, and can close.
  void close(ucp_ep* to, const endpoint& connection) {
    EXPECT_TRUE(progress_until(survivor, [&](unsigned) { return connection.failed; }));
    survivor.close(to);
    EXPECT_TRUE(progress_until(survivor, [&](unsigned count) { return count == 0 && survivor.idle(); }));
  }

  nobody owner;
  ucx_worker survivor{loopback(), owner};

 private:
  static inline std::vector<peer> peers;
};

TEST_F(dying_peer_test, whose_greeting_is_answered_too_late) {
  for (int i = 0; i < num_peers; ++i) {
    const auto victim = next_peer();
    const auto address = victim.start(deed::connects, survivor);
    victim.await_deed();
    endpoint connection;
    auto* const to = survivor.connect(address, connection);
    ASSERT_NE(to, nullptr);
    message first;
    first.post(survivor, to);
    // Takes the first bytes of the peer's connection, and leaves its greeting for later.
    EXPECT_TRUE(progress_until(survivor, something_happened));
    victim.kill();
    close(to, connection);
    EXPECT_FALSE(first.under_way);
  }
}

TEST_F(dying_peer_test, who_has_connected_and_is_connected_to_too_late) {
  for (int i = 0; i < num_peers; ++i) {
    const auto victim = next_peer();
    const auto address = victim.start(deed::connects, survivor);
    victim.await_deed();
    for (int n = 0; n < 2; ++n) // the first bytes, and the greeting
      EXPECT_TRUE(progress_until(survivor, something_happened));
    victim.kill();
    endpoint connection;
    auto* const to = survivor.connect(address, connection);
    if (to == nullptr)
      continue;
    message first;
    first.post(survivor, to);
    close(to, connection);
    EXPECT_FALSE(first.under_way);
  }
}

TEST_F(dying_peer_test, who_has_sent_and_waits_for_an_answer) {
  for (int i = 0; i < num_peers; ++i) {
    const auto victim = next_peer();
    meet_sender(victim, survivor);
    victim.kill();
    EXPECT_TRUE(progress_until(survivor, nothing_happened));
    EXPECT_TRUE(survivor.idle());
  }
}

TEST_F(dying_peer_test, who_waits_for_an_answer_of_one_that_leaves) {
  const auto victim = next_peer();
  ucx_worker leaving{loopback(), owner};
  {
    // The answer, which is leaked.
    test::unreported_leaks known;
    meet_sender(victim, leaving);
  }
  victim.kill();
}

} // namespace
} // namespace troupe::wire
