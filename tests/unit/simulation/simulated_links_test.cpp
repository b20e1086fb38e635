// Two processes on simulated links, with the real transport between their actors.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <gtest/gtest.h>

#include "tests/simulation/world.hpp"

namespace troupe::simulation {
namespace {

using namespace std::chrono_literals;

/// "here" sends numbers to an actor of "there", which keeps them and answers each with its double.
class simulated_links_test : public testing::Test {
 protected:
  void SetUp() override {
    there_ = &around_.start("there", "");
    here_ = &around_.start("here", "");
    const auto doubler = there_->add(there_->system().spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](std::int32_t number) {
        taken_.push_back(number);
        return 2 * number;
      }};
    }));
    there_->peers().publish("doubler", caf::actor_cast<caf::strong_actor_ptr>(doubler));
    asker_ = here_->add(here_->system().spawn([this](caf::event_based_actor* self) -> caf::behavior {
      self->set_down_handler([this](const caf::down_msg&) { downs_.push_back(around_.elapsed()); });
      self->request(here_->peers().actor(), 5s, caf::resolve_atom_v, std::string{"there:1"},
                    std::string{"doubler"})
          .then([this, self](const caf::strong_actor_ptr& found) {
            found_ = caf::actor_cast<caf::actor>(found);
            self->monitor(found_);
          });
      return {[this, self](std::int32_t number) {
        self->request(found_, 10s, number)
            .then([this](std::int32_t twice) { answers_.push_back(twice); },
                  [this](const caf::error&) { ++num_errors_; });
      }};
    }));
    ASSERT_TRUE(around_.run_until([this] { return static_cast<bool>(found_); }, 1s));
  }

  void TearDown() override {
    found_ = nullptr;
    asker_ = nullptr;
    around_.end("here", ending::killed);
    around_.end("there", ending::killed);
  }

  /// Sends numbers from `first` on.
  void send(std::int32_t first, std::int32_t count) {
    for (auto i = first; i < first + count; ++i)
      caf::anon_send(asker_, i);
  }

  void expect_prefix() const {
    for (std::size_t i = 0; i < taken_.size(); ++i)
      ASSERT_EQ(taken_[i], static_cast<std::int32_t>(i)) << "out of order, or twice";
  }

  world around_{1};
  process* here_ = nullptr;
  process* there_ = nullptr;
  caf::actor asker_;
  caf::actor found_;
  std::vector<std::int32_t> taken_;
  std::vector<std::int32_t> answers_;
  std::vector<duration> downs_;
  std::size_t num_errors_ = 0;
};

TEST_F(simulated_links_test, a_request_takes_virtual_time_and_travels_as_bytes) {
  const auto began = around_.elapsed();
  send(21, 1);
  ASSERT_TRUE(around_.run_until([this] { return !answers_.empty(); }, 1s));
  EXPECT_EQ(answers_, std::vector<std::int32_t>{42});
  EXPECT_GE(around_.elapsed() - began, 120us) << "there and back, 60 µs each";
  EXPECT_GT(here_->peers().stats().bytes_sent, 100U);
  EXPECT_EQ(here_->peers().stats().requests_pending, 0U);
}

TEST_F(simulated_links_test, a_cut_that_heals_in_time_only_delays) {
  around_.links().cut("here", "there");
  send(0, 50);
  around_.run_for(1s);
  EXPECT_TRUE(taken_.empty());
  around_.links().heal("here", "there");
  around_.run_for(1s);
  EXPECT_EQ(answers_.size(), 50U);
  expect_prefix();
  EXPECT_TRUE(downs_.empty());
}

TEST_F(simulated_links_test, a_cut_that_lasts_ends_the_connection_by_silence) {
  const auto began = around_.elapsed();
  around_.links().cut("there", "here");
  send(0, 5);
  around_.run_for(4s);
  EXPECT_EQ(taken_.size(), 5U) << "the way there is not cut";
  EXPECT_EQ(num_errors_, 5U);
  ASSERT_EQ(downs_.size(), 1U);
  EXPECT_GE(downs_[0] - began, 1500ms);
  EXPECT_LE(downs_[0] - began, 2700ms);
}

TEST_F(simulated_links_test, a_reset_loses_the_end_of_what_is_under_way_and_nothing_else) {
  std::size_t num_lost = 0;
  for (std::int32_t i = 0; i < 5; ++i)
    send(10 * i, 10);
  around_.run_some(60); // they are sent, and under way
  around_.links().reset("here", "there");
  around_.run_for(1s);
  expect_prefix();
  num_lost = 50 - taken_.size();
  EXPECT_GT(num_lost, 0U);
  EXPECT_EQ(answers_.size() + num_errors_, 50U) << "each has an answer or an error";
  EXPECT_EQ(downs_.size(), 1U);
}

TEST_F(simulated_links_test, a_killed_process_is_seen_at_once) {
  const auto began = around_.elapsed();
  around_.end("there", ending::killed);
  around_.run_for(100ms);
  ASSERT_EQ(downs_.size(), 1U);
  EXPECT_LE(downs_[0] - began, 10ms);
}

TEST_F(simulated_links_test, a_lost_machine_is_seen_by_silence) {
  const auto began = around_.elapsed();
  around_.end("there", ending::lost);
  around_.run_for(4s);
  ASSERT_EQ(downs_.size(), 1U);
  EXPECT_GE(downs_[0] - began, 1500ms);
}

TEST_F(simulated_links_test, a_process_that_was_stopped_finds_what_has_come_meanwhile) {
  there_->stop();
  send(0, 5);
  around_.run_for(1s);
  EXPECT_TRUE(taken_.empty());
  there_->go_on();
  around_.run_for(100ms);
  EXPECT_EQ(answers_.size(), 5U);
  EXPECT_TRUE(downs_.empty());
}

TEST_F(simulated_links_test, a_slow_link_takes_longer) {
  around_.links().slow_down("here", "there", 100);
  const auto began = around_.elapsed();
  send(1, 1);
  ASSERT_TRUE(around_.run_until([this] { return !answers_.empty(); }, 1s));
  EXPECT_GE(around_.elapsed() - began, 6ms);
}

TEST(simulated_world_test, processes_that_dial_one_another_have_one_connection) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    world around{seed};
    std::vector<caf::actor> found(2);
    const std::vector<std::string> names{"one", "other"};
    for (const auto& name : names) {
      auto& here = around.start(name, "");
      const auto idle = here.add(here.system().spawn([](caf::event_based_actor*) -> caf::behavior {
        return {[](std::int32_t number) { return number; }};
      }));
      here.peers().publish("idle", caf::actor_cast<caf::strong_actor_ptr>(idle));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      auto* const here = around.find(names[i]);
      here->ask<caf::strong_actor_ptr>(
          [&found, i](const caf::expected<caf::strong_actor_ptr>& actor) {
            if (actor)
              found[i] = caf::actor_cast<caf::actor>(*actor);
          },
          here->peers().actor(), caf::resolve_atom_v, names[1 - i] + ":1", std::string{"idle"});
    }
    EXPECT_TRUE(around.run_until([&found] { return found[0] && found[1]; }, 5s));
    around.run_for(1s);
    for (const auto& name : names)
      EXPECT_EQ(around.find(name)->peers().stats().peers, 1U);
    found.clear();
    for (const auto& name : names)
      around.end(name, ending::killed);
  }
}

} // namespace
} // namespace troupe::simulation
