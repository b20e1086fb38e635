// The activation reporter between a worker and a history that may each be absent: every row is counted once.
#include "actors/history/activation_reporter.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/history/history.hpp"
#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

using counting_worker_actor = caf::typed_actor<caf::replies_to<caf::get_atom>::with<activation_counts_ptr>>;

/// A history with scripted answers.
struct history_script {
  enum class mode { takes, is_silent, refuses };

  mode now = mode::takes;
  bool saves = true;
  std::vector<activation_report> reports;
  std::uint64_t last = 0; ///< sequence number that it has seen
};

struct scripted_history_state {
  static inline const char* name = "scripted_history";
  std::vector<caf::typed_response_promise<activation_receipt>> unanswered;
};

history_actor::behavior_type scripted_history(history_actor::stateful_pointer<scripted_history_state> self,
                                              std::shared_ptr<history_script> script) {
  return {
      [self, script](const activation_report& report) -> caf::result<activation_receipt> {
        script->reports.push_back(report);
        if (script->now == history_script::mode::is_silent)
          return self->state.unanswered.emplace_back(self->make_response_promise<activation_receipt>());
        if (script->now == history_script::mode::refuses)
          return make_error(ec::bad_request, "no");
        script->last = std::max(script->last, report.first + report.windows.size() - 1);
        return activation_receipt{script->last, script->saves ? script->last : 0};
      },
      [](history_atom, std::uint32_t) { return history_snapshot{}; },
      [](caf::tick_atom) {},
  };
}

class activation_reporter_test : public deterministic_system {
 protected:
  void SetUp() override {
    deterministic_system::SetUp();
    directory = root(system.spawn(local_directory));
    worker = root(system.spawn([this]() -> counting_worker_actor::behavior_type {
      return {[this](caf::get_atom) {
        ++num_looks;
        return std::make_shared<const activation_counts>(counts);
      }};
    }));
    activation_reporter_config config;
    config.worker = caf::actor_cast<caf::strong_actor_ptr>(worker);
    config.id = {7};
    config.fingerprint = "model";
    config.layer_experts = {2, 0, 1};
    config.directory = directory;
    reporter = root(spawn_activation_reporter(system, std::move(config)));
    run();
  }

  void publish(const history_actor& actor) {
    history = actor;
    caf::anon_send(directory, caf::publish_atom_v, "history", caf::actor_cast<caf::strong_actor_ptr>(actor));
    run();
  }

  void start_scripted() { publish(root(system.spawn(scripted_history, script))); }

  /// The real history.
  void start_history(const std::string& state_dir = {}) {
    history_config config;
    config.state_dir = state_dir;
    publish(root(spawn_history(system, std::move(config))));
  }

  void kill_history() {
    caf::anon_send(directory, caf::publish_atom_v, "history", caf::strong_actor_ptr{});
    kill(history);
  }

  /// The worker computes tokens, which choose the first expert of layer 0 and the one of layer 2.
  void work(std::uint64_t tokens) {
    counts.tokens += tokens;
    counts.rows[0][0] += tokens;
    counts.rows[2][0] += tokens;
  }

  activation_window window_of(const activation_report& report, std::size_t index = 0) const {
    return decode_window(report.windows.at(index), report.layer_experts);
  }

  history_snapshot known() { return *ask<history_snapshot>(history, history_atom_v, std::uint32_t{99}); }

  activation_counts counts{0, 0, {{0, 0}, {}, {0}}};
  int num_looks = 0;
  local_directory_actor directory;
  counting_worker_actor worker;
  std::shared_ptr<history_script> script = std::make_shared<history_script>();
  history_actor history;
  activation_reporter_actor reporter;
};

TEST_F(activation_reporter_test, tells_what_came_since_the_last_look) {
  start_scripted();
  work(3);
  advance(defaults::history_interval);
  work(4);
  advance(defaults::history_interval);
  ASSERT_EQ(script->reports.size(), 2U);
  const auto& first = script->reports[0];
  EXPECT_EQ(first.worker, worker_id{7});
  EXPECT_EQ(first.fingerprint, "model");
  EXPECT_EQ(first.layer_experts, (std::vector<std::uint32_t>{2, 0, 1}));
  EXPECT_EQ(first.first, 1U);
  EXPECT_EQ(window_of(first), (activation_window{5000, {3, 0, {{3, 0}, {}, {3}}}}));
  EXPECT_EQ(script->reports[1].first, 2U);
  EXPECT_EQ(window_of(script->reports[1]), (activation_window{5000, {4, 0, {{4, 0}, {}, {4}}}}));
}

TEST_F(activation_reporter_test, says_nothing_while_nothing_runs) {
  start_scripted();
  advance(60s);
  EXPECT_EQ(num_looks, 12);
  EXPECT_TRUE(script->reports.empty());
  work(1);
  advance(60s);
  ASSERT_EQ(script->reports.size(), 1U);
  EXPECT_EQ(window_of(script->reports[0]).duration_ms, 5000U) << "the idle minute is no part of it";
}

TEST_F(activation_reporter_test, sends_again_what_was_not_answered) {
  start_scripted();
  script->now = history_script::mode::is_silent;
  work(3);
  advance(defaults::history_interval + defaults::local_request);
  work(4);
  script->now = history_script::mode::takes;
  advance(defaults::history_interval);
  ASSERT_EQ(script->reports.size(), 2U);
  EXPECT_EQ(script->reports[0], script->reports[1]);
  advance(defaults::history_interval);
  ASSERT_EQ(script->reports.size(), 3U);
  EXPECT_EQ(script->reports[2].first, 2U);
  EXPECT_EQ(window_of(script->reports[2]).counts.tokens, 4U);
}

TEST_F(activation_reporter_test, one_long_window_covers_an_absence) {
  for (int i = 0; i < 100; ++i) {
    work(2);
    advance(defaults::history_interval);
  }
  start_scripted();
  advance(2 * defaults::history_interval);
  ASSERT_EQ(script->reports.size(), 2U);
  EXPECT_EQ(script->reports[0].windows.size(), 1U);
  EXPECT_EQ(window_of(script->reports[0]).counts.tokens, 2U) << "what was told when it was not there yet";
  EXPECT_EQ(script->reports[1].windows.size(), 1U);
  EXPECT_EQ(window_of(script->reports[1]).counts.tokens, 198U);
}

TEST_F(activation_reporter_test, a_history_that_refuses_costs_nothing_more) {
  start_scripted();
  script->now = history_script::mode::refuses;
  for (int i = 0; i < 20; ++i) {
    work(1);
    advance(defaults::history_interval);
  }
  ASSERT_EQ(script->reports.size(), 20U);
  for (const auto& report : script->reports)
    EXPECT_EQ(report, script->reports[0]);
}

TEST_F(activation_reporter_test, a_new_history_is_told_what_the_old_one_had_not_saved) {
  start_scripted();
  script->saves = false;
  for (int i = 0; i < 3; ++i) {
    work(1);
    advance(defaults::history_interval);
  }
  kill_history();
  script = std::make_shared<history_script>();
  start_scripted();
  advance(defaults::history_interval);
  ASSERT_EQ(script->reports.size(), 1U) << "though nothing has run since";
  EXPECT_EQ(script->reports[0].first, 1U);
  EXPECT_EQ(script->reports[0].windows.size(), 3U);
  advance(60s);
  EXPECT_EQ(script->reports.size(), 1U);
}

TEST_F(activation_reporter_test, keeps_only_so_many_for_a_disk_that_hangs) {
  start_scripted();
  script->saves = false;
  for (int i = 0; i < 20; ++i) {
    work(1);
    advance(defaults::history_interval);
  }
  kill_history();
  script = std::make_shared<history_script>();
  start_scripted();
  advance(defaults::history_interval);
  ASSERT_EQ(script->reports.size(), 1U);
  EXPECT_EQ(script->reports[0].first, 5U);
  EXPECT_EQ(script->reports[0].windows.size(), defaults::max_unsaved_windows);
}

TEST_F(activation_reporter_test, every_row_is_counted_once_whatever_dies) {
  const auto state_dir = ::testing::TempDir() + "troupe-reporter-test";
  std::filesystem::remove_all(state_dir);
  start_history(state_dir);
  for (int i = 0; i < 200; ++i) {
    work(1);
    advance(2s);
    if (i % 90 == 75 || i % 90 == 85)
      kill_history();
    if (i % 90 == 80 || i % 90 == 88)
      start_history(state_dir); // with much of what it had saved, and nothing newer
  }
  advance(4 * defaults::history_interval);
  EXPECT_EQ(known().tokens, 200U);
  EXPECT_EQ(known().rows, 400U);
  kill_history();
  std::filesystem::remove_all(state_dir);
}

TEST_F(activation_reporter_test, tells_the_rest_before_it_leaves) {
  start_history();
  work(1);
  advance(defaults::history_interval);
  work(5);
  bool has_left = false;
  system.spawn([&](caf::event_based_actor* self) {
    self->request(reporter, defaults::local_request, caf::leave_atom_v).then([&] { has_left = true; });
  });
  run();
  EXPECT_TRUE(has_left);
  EXPECT_EQ(known().tokens, 6U);
}

TEST_F(activation_reporter_test, ends_with_its_worker) {
  bool has_ended = false;
  caf::actor_cast<caf::abstract_actor*>(reporter)->attach_functor(
      [&](const caf::error&) { has_ended = true; });
  kill(worker);
  EXPECT_TRUE(has_ended);
}

// ---------------------------------------------------------------------------------------------------------------
// Several schedulers

class reporter_between_two_test : public activation_reporter_test {
 protected:
  void SetUp() override {
    activation_reporter_test::SetUp();
    kill(reporter);
    const auto lookup = root(system.spawn([this]() -> directory_actor::behavior_type {
      return {[this](caf::resolve_atom, const std::string& endpoint,
                     const std::string& service) -> caf::result<caf::strong_actor_ptr> {
        asked.push_back(endpoint);
        const auto found = histories.find(endpoint);
        if (service != "history" || found == histories.end())
          return make_error(ec::peer_down, "nobody is there");
        return caf::actor_cast<caf::strong_actor_ptr>(found->second);
      }};
    }));
    activation_reporter_config config;
    config.worker = caf::actor_cast<caf::strong_actor_ptr>(worker);
    config.id = {7};
    config.fingerprint = "model";
    config.layer_experts = {2, 0, 1};
    config.scheduler_endpoints = {"a", "b"};
    config.directory = lookup;
    reporter = root(spawn_activation_reporter(system, std::move(config)));
    run();
  }

  void TearDown() override {
    histories.clear();
    activation_reporter_test::TearDown();
  }

  std::map<std::string, history_actor> histories;
  std::vector<std::string> asked;
};

TEST_F(reporter_between_two_test, tells_the_one_that_is_active) {
  histories["b"] = root(system.spawn(scripted_history, script));
  work(3);
  advance(defaults::history_interval);
  EXPECT_EQ(asked, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(script->reports.size(), 1U);
  work(4);
  advance(defaults::history_interval);
  EXPECT_EQ(script->reports.size(), 2U);
  EXPECT_EQ(asked.size(), 2U) << "it is known where it is";
}

TEST_F(reporter_between_two_test, one_that_stands_still_is_left_for_its_standby) {
  script->now = history_script::mode::is_silent;
  histories["a"] = root(system.spawn(scripted_history, script));
  work(3);
  advance(defaults::history_interval + defaults::local_request);
  ASSERT_EQ(script->reports.size(), 1U);
  auto other = std::make_shared<history_script>();
  histories["b"] = root(system.spawn(scripted_history, other));
  advance(2 * defaults::history_interval);
  ASSERT_EQ(other->reports.size(), 1U) << "what the first has not confirmed";
  EXPECT_EQ(window_of(other->reports[0]).counts.tokens, 3U);
  EXPECT_EQ(script->reports.size(), 1U);
}

TEST_F(reporter_between_two_test, none_is_asked_more_than_once_a_round) {
  work(3);
  advance(defaults::history_interval);
  EXPECT_EQ(asked, (std::vector<std::string>{"a", "b"}));
  advance(defaults::history_interval);
  EXPECT_EQ(asked.size(), 4U);
}

} // namespace
} // namespace troupe
