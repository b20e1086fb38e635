// Lanes and credits of the transport: the order of overtaking, and the costs of a slow peer.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

// put_atom messages are bulk; questions and answers are not.
transport_options with_bulk() {
  auto result = loopback_options();
  result.is_bulk = [](const caf::message& content) { return content.match_element<caf::put_atom>(0); };
  return result;
}

// Number of batches received by `server`, and how many of them were in a wrong order or with wrong content.
std::pair<std::uint64_t, std::uint64_t> taken_by(node& here, const server_actor& server) {
  std::pair<std::uint64_t, std::uint64_t> result;
  caf::scoped_actor self{here.system};
  self->request(server, patience, caf::get_atom_v)
      .receive(
          [&](std::uint64_t taken, std::uint64_t wrong) {
            result = {taken, wrong};
          },
          [&](caf::error& err) { ADD_FAILURE() << here.system.render(err); });
  return result;
}

void put_large(node& here, const server_actor& server, std::uint64_t count, std::size_t num_bytes) {
  std::vector<batch> batches;
  for (std::uint64_t i = 1; i <= count; ++i)
    batches.push_back({i, "", {patterned(num_bytes, i)}});
  caf::scoped_actor self{here.system};
  for (auto& x : batches)
    self->send(server, caf::put_atom_v, std::move(x));
}

TEST(transport_lanes_test, a_question_overtakes_bulk_that_was_sent_before_it) {
  node here{with_bulk()};
  child peer;
  const auto server = here.server_at(peer.endpoint());
  peer.stop();
  put_large(here, server, 5, 4'000'000);
  caf::scoped_actor self{here.system};
  auto asked = self->request(server, patience, caf::get_atom_v);
  peer.resume();
  asked.receive([](std::uint64_t taken, std::uint64_t) { EXPECT_EQ(taken, 0U); },
                [&](caf::error& err) { ADD_FAILURE() << here.system.render(err); });
  EXPECT_TRUE(eventually([&] { return taken_by(here, server).first == 5; }));
  EXPECT_EQ(taken_by(here, server).second, 0U);
}

void keep_order(const transport_options& options, const std::vector<std::string>& args) {
  node here{options};
  child peer{args};
  const auto server = here.server_at(peer.endpoint());
  // Around the ends of pieces, and metadata that take several.
  const std::size_t sizes[] = {0, 100, 131'072, 300'001, 131'073, 2'000'000, 262'144, 64};
  const std::size_t notes[] = {5, 20'000, 5, 400'000, 5, 131'000};
  constexpr std::uint64_t count = 240;
  caf::scoped_actor self{here.system};
  for (std::uint64_t i = 1; i <= count; ++i) {
    batch x{i, std::string(notes[i % 6], 'x'), {patterned(sizes[i % 8], i)}};
    if (i % 5 == 0)
      x.parts.push_back(patterned(77, i));
    self->send(server, caf::put_atom_v, std::move(x));
  }
  EXPECT_TRUE(eventually([&] { return taken_by(here, server).first == count; }));
  EXPECT_EQ(taken_by(here, server).second, 0U);
  EXPECT_TRUE(eventually([&] { return here.net->stats().bytes_under_way == 0; }));
}

TEST(transport_lanes_test, bulk_keeps_its_order_and_content_in_pieces) {
  keep_order(with_bulk(), {});
}

TEST(transport_lanes_test, over_shared_memory_too) {
  auto options = with_bulk();
  options.shared_memory = true;
  keep_order(options, {"--shm"});
}

TEST(transport_lanes_test, a_message_larger_than_the_window_comes_alone) {
  auto options = with_bulk();
  options.window_bytes = 1 << 20;
  node here{options};
  child peer;
  const auto server = here.server_at(peer.endpoint());
  put_large(here, server, 1, 70'000'000);
  EXPECT_TRUE(eventually([&] { return taken_by(here, server).first == 1; }));
  EXPECT_EQ(taken_by(here, server).second, 0U);
}

TEST(transport_lanes_test, a_full_bulk_lane_leaves_the_other_free) {
  auto options = with_bulk();
  options.window_bytes = 1 << 20;
  node here{options};
  child peer;
  const auto server = here.server_at(peer.endpoint());
  peer.stop();
  put_large(here, server, 3, 600'000); // both windows
  caf::scoped_actor self{here.system};
  auto asked = self->request(server, patience, batch{1, "", {patterned(600'000, 1)}});
  EXPECT_EQ(here.net->stats().frames_refused, 0U);
  peer.resume();
  asked.receive([](batch& x) { EXPECT_EQ(x.id, 2U); },
                [&](caf::error& err) { ADD_FAILURE() << here.system.render(err); });
  EXPECT_TRUE(eventually([&] { return taken_by(here, server).first == 3; }));
}

TEST(transport_lanes_test, a_stopped_peer_costs_its_sender_no_more_than_the_windows) {
  auto options = loopback_options();
  options.window_bytes = 8 << 20;
  // Requests, half of them bulk.
  auto odd = std::make_shared<std::atomic<unsigned>>(0);
  options.is_bulk = [odd](const caf::message& content) {
    return content.match_element<batch>(0) && ++*odd % 2 == 0;
  };
  node here{options};
  child peer;
  const auto server = here.server_at(peer.endpoint());
  peer.stop();
  auto& pool = buffer_pool::instance();
  const auto before = pool.stats().live_bytes;
  std::atomic<int> refused{0};
  constexpr int count = 200;
  caf::scoped_actor self{here.system};
  const auto asker = self->spawn([&](caf::event_based_actor* me) {
    for (int i = 0; i < count; ++i)
      me->request(server, patience, batch{1, "", {payload::allocate(1'000'000)}})
          .then([](const batch&) {}, [&](const caf::error&) { ++refused; });
  });
  EXPECT_TRUE(eventually([&] { return refused >= count - 16; }));
  EXPECT_EQ(refused, count - 16) << "eight fit into each window";
  // A buffer of 1,000,000 bytes takes 2^20.
  EXPECT_LE(pool.stats().live_bytes - before, 2 * options.window_bytes + (1 << 20));
  peer.kill(); // answers the rest
  self->wait_for(asker);
  EXPECT_TRUE(eventually([&] { return pool.stats().live_bytes == before; }));
}

// -- credits ------------------------------------------------------------------------

class gate {
 public:
  void open() {
    std::lock_guard guard{mutex_};
    is_open_ = true;
    changed_.notify_all();
  }

  void pass() {
    std::unique_lock guard{mutex_};
    changed_.wait_for(guard, patience, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

using slow_actor =
    caf::typed_actor<caf::replies_to<batch>::with<batch>, caf::reacts_to<caf::put_atom, batch>>;

class credit_test : public testing::Test {
 protected:
  static constexpr std::uint64_t window = 16;

  static transport_options with_small_window() {
    auto result = loopback_options();
    result.window_messages = window;
    return result;
  }

  ~credit_test() override {
    opened.open();
    caf::anon_send_exit(slow, caf::exit_reason::kill);
  }

  // Handles nothing until the gate opens; then, if requested, ends with its first message.
  slow_actor spawn_slow(bool ends) {
    return there.system.spawn<caf::detached>(
        [this, ends](slow_actor::pointer self) -> slow_actor::behavior_type {
          return {[this, ends, self](batch& x) {
                    opened.pass();
                    if (ends)
                      self->quit(caf::exit_reason::user_shutdown);
                    ++x.id;
                    return std::move(x);
                  },
                  [this](caf::put_atom, const batch&) { opened.pass(); }};
        });
  }

  slow_actor publish_slow(bool ends = false) {
    slow = spawn_slow(ends);
    there.net->publish("slow", slow);
    auto found = here.resolve(there.net->endpoint(), "slow");
    return found ? caf::actor_cast<slow_actor>(*found) : slow_actor{};
  }

  // Sends `count` requests to `to`; each ends in one of the counters.
  caf::actor ask(const slow_actor& to, int count) {
    return here.system.spawn([this, to, count](caf::event_based_actor* self) {
      for (int i = 0; i < count; ++i)
        self->request(to, patience, batch{})
            .then([this](const batch&) { ++answered; },
                  [this](const caf::error& err) {
                    ++(is_transport_error(err, transport_error::window_full) ? refused : failed);
                  });
    });
  }

  gate opened;
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  std::atomic<int> failed{0};
  node here{with_small_window()};
  node there{with_small_window()};
  slow_actor slow;
};

TEST_F(credit_test, the_window_bounds_the_mailbox_of_a_slow_actor) {
  const auto remote = publish_slow();
  ASSERT_TRUE(remote);
  constexpr int count = 100;
  ask(remote, count);
  EXPECT_TRUE(eventually([&] { return refused >= count - static_cast<int>(window); }));
  // Messages that arrived but were not handled return no credits.
  EXPECT_TRUE(eventually([&] { return there.net->stats().frames_received >= window / 2; }));
  EXPECT_LE(there.net->stats().frames_received, window + 2) << "and two to find it";
  const int accepted = count - refused;
  opened.open();
  EXPECT_TRUE(eventually([&] { return answered == accepted; }));
  EXPECT_TRUE(eventually([&] { return here.net->stats().bytes_under_way == 0; }));
  answered = 0;
  refused = 0;
  ask(remote, 4);
  EXPECT_TRUE(eventually([&] { return answered == 4; }));
  EXPECT_EQ(refused, 0);
}

TEST_F(credit_test, an_actor_that_ends_gives_back_what_it_has_not_handled) {
  const auto remote = publish_slow(true);
  ASSERT_TRUE(remote);
  ask(remote, 8);
  EXPECT_TRUE(eventually([&] { return there.net->stats().frames_received >= 8; }));
  opened.open();
  EXPECT_TRUE(eventually([&] { return answered + failed == 8; }));
  EXPECT_TRUE(eventually([&] { return here.net->stats().bytes_under_way == 0; }));
}

TEST_F(credit_test, notifications_beyond_both_windows_end_the_connection) {
  const auto remote = publish_slow();
  ASSERT_TRUE(remote);
  for (std::uint64_t i = 0; i < 2 * window + 1; ++i)
    caf::anon_send(remote, caf::put_atom_v, batch{});
  EXPECT_TRUE(here.await_line("does not keep up"));
}

// Both wait for each other's answers, with windows full of questions.
TEST_F(credit_test, two_that_ask_each_other_do_not_wait_for_ever) {
  using relay_actor = caf::typed_actor<caf::replies_to<batch>::with<batch>>;
  const auto spawn_relay = [](node& at, const server_actor& last) {
    return at.system.spawn([last](relay_actor::pointer self) -> relay_actor::behavior_type {
      return {[self, last](batch& x) {
        auto promise = self->make_response_promise<batch>();
        self->request(last, patience, std::move(x))
            .then([promise](batch& answer) mutable { promise.deliver(std::move(answer)); },
                  [promise](caf::error& err) mutable { promise.deliver(std::move(err)); });
        return promise;
      }};
    });
  };
  // here -> relay over there -> server here: every answer crosses a question.
  const auto server = spawn_server(here.system);
  here.net->publish("server", server);
  const auto back = there.server_at(here.net->endpoint());
  const auto relay = spawn_relay(there, back);
  there.net->publish("relay", relay);
  const auto found = here.resolve(there.net->endpoint(), "relay");
  ASSERT_TRUE(found);
  const auto remote = caf::actor_cast<relay_actor>(*found);
  constexpr int count = 4 * static_cast<int>(window);
  here.system.spawn([this, remote](caf::event_based_actor* self) {
    for (int i = 0; i < count; ++i)
      self->request(remote, patience, batch{})
          .then([this](const batch&) { ++answered; }, [this](const caf::error&) { ++refused; });
  });
  EXPECT_TRUE(eventually([&] { return answered + refused == count; }));
  // Each side has sent a resolve, its answer and a monitor, whose credits may still be on their way.
  EXPECT_GE(answered, static_cast<int>(window) - 3) << "what was taken is answered";
  caf::anon_send_exit(relay, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
}

} // namespace
} // namespace troupe::test
