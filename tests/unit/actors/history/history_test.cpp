// The history actor: its counts, and the part that a restarted scheduler gets.
#include "actors/history/history.hpp"

#include <filesystem>
#include <fstream>
#include <utility>

#include "actors/history/history_store.hpp"
#include "actors/state/file_format.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using events = std::vector<std::string>;

class history_test : public deterministic_system {
 protected:
  void SetUp() override {
    deterministic_system::SetUp();
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory = ::testing::TempDir() + "troupe-history-actor-" + info->name();
    std::filesystem::remove_all(directory);
  }

  void TearDown() override {
    deterministic_system::TearDown();
    std::filesystem::remove_all(directory);
  }

  history_actor start(std::string state_dir, std::function<history_snapshot()> seed = {}) {
    history_config config;
    config.state_dir = std::move(state_dir);
    config.seed = std::move(seed);
    config.is_deposed = [this] { return is_deposed; };
    config.on_event = [this](const char* event, const std::string& text) {
      told.emplace_back(event);
      texts.push_back(text);
    };
    actor = root(spawn_history(system, std::move(config)));
    run();
    return actor;
  }

  /// `kill -9` of the scheduler's process, and a restart.
  void restart() {
    kill(actor);
    told.clear();
    start(directory);
  }

  static activation_report report(std::uint64_t sequence, const std::string& model = "model") {
    return {{7}, model, {2}, sequence, {encode({0, {1, 1, {{1, 0}}}})}};
  }

  /// One row for expert 0.
  caf::expected<activation_receipt> tell(const activation_report& what) {
    return ask<activation_receipt>(actor, what);
  }

  activation_receipt count(std::uint64_t sequence) {
    const auto receipt = tell(report(sequence));
    EXPECT_TRUE(receipt);
    return receipt ? *receipt : activation_receipt{};
  }

  history_snapshot known() { return *ask<history_snapshot>(actor, history_atom_v, std::uint32_t{9}); }

  static history_snapshot seed_of(const std::string& model) {
    return {model, {2}, 600'000, 5'000, 100, 200, {{150, 50}}, {}};
  }

  bool is_deposed = false;
  std::string directory;
  history_actor actor;
  events told;
  std::vector<std::string> texts;
};

TEST_F(history_test, counts_and_gives_receipts) {
  start("");
  EXPECT_EQ(known().fingerprint, "");
  EXPECT_EQ(count(1), (activation_receipt{1, 1})) << "without a directory there is nothing to wait for";
  EXPECT_EQ(count(2), (activation_receipt{2, 2}));
  EXPECT_EQ(count(1), (activation_receipt{2, 2})) << "known";
  EXPECT_EQ(known().tokens, 2U);
  EXPECT_EQ(known().windows.size(), 2U);
  EXPECT_EQ(ask<history_snapshot>(actor, history_atom_v, std::uint32_t{1})->windows.size(), 1U);
  EXPECT_FALSE(coordinator.has_pending_timeout()) << "what is kept nowhere needs no tick";
}

TEST_F(history_test, refuses_other_models_and_nonsense) {
  start("");
  count(1);
  EXPECT_EQ(code_of(tell(report(2, "another")).error()), ec::incompatible);
  auto nonsense = report(2);
  nonsense.windows[0] = "nonsense";
  EXPECT_EQ(code_of(tell(nonsense).error()), ec::bad_request);
  EXPECT_EQ(known().tokens, 1U);
}

TEST_F(history_test, is_written_once_a_minute_and_only_when_it_changes) {
  start(directory);
  const auto file = directory + "/history";
  EXPECT_EQ(count(1), (activation_receipt{1, 0}));
  advance(defaults::history_save_interval - 1ms);
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(count(2), (activation_receipt{2, 0}));
  advance(1ms);
  EXPECT_EQ(history_store{directory}.load()->history.tokens, 2U);
  EXPECT_EQ(count(3), (activation_receipt{3, 2})) << "the third is not in the file";
  advance(defaults::history_save_interval);
  EXPECT_EQ(count(3), (activation_receipt{3, 3}));
  advance(10 * defaults::history_save_interval);
  EXPECT_FALSE(coordinator.has_pending_timeout()) << "nothing has changed since";
}

TEST_F(history_test, a_killed_one_knows_again_what_its_receipts_called_saved) {
  start(directory);
  count(1);
  advance(defaults::history_save_interval);
  EXPECT_EQ(count(2), (activation_receipt{2, 1}));
  restart();
  EXPECT_EQ(told, events{"history"});
  EXPECT_EQ(known().tokens, 1U);
  EXPECT_EQ(count(1), (activation_receipt{1, 1})) << "counted before it died";
  EXPECT_EQ(count(2), (activation_receipt{2, 1}));
  EXPECT_EQ(known().tokens, 2U);
}

TEST_F(history_test, one_that_ends_in_order_has_written_everything) {
  start(directory);
  count(1);
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(history_store{directory}.load()->counted, (std::map<worker_id, std::uint64_t>{{{7}, 1}}));
}

TEST_F(history_test, a_file_of_a_later_version_is_refused_and_left_where_it_is) {
  std::filesystem::create_directories(directory);
  std::ofstream{directory + "/history"} << "troupe-history 3\n";
  EXPECT_THROW(start(directory), later_format);
  EXPECT_TRUE(std::filesystem::exists(directory + "/history"));
}

TEST_F(history_test, a_damaged_file_is_told_of_and_set_aside) {
  std::filesystem::create_directories(directory);
  std::ofstream{directory + "/history"} << "damaged";
  start(directory);
  EXPECT_EQ(told, events{"history-damaged"});
  EXPECT_NE(texts[0].find(directory + "/history is not used"), std::string::npos) << texts[0];
  EXPECT_TRUE(std::filesystem::exists(directory + "/history.unused"));
  EXPECT_EQ(known().fingerprint, "") << "it begins empty";
  EXPECT_EQ(count(1), (activation_receipt{1, 0}));
}

TEST_F(history_test, a_file_of_another_model_is_set_aside_when_a_worker_reports) {
  start(directory);
  count(1);
  advance(defaults::history_save_interval);
  restart();
  EXPECT_EQ(known().fingerprint, "model");
  EXPECT_TRUE(tell(report(1, "another")));
  EXPECT_EQ(told, (events{"history", "history-unused"}));
  EXPECT_EQ(known().fingerprint, "another");
  EXPECT_EQ(known().tokens, 1U);
  EXPECT_TRUE(std::filesystem::exists(directory + "/history.unused"));
  advance(defaults::history_save_interval);
  EXPECT_EQ(history_store{directory}.load()->history.fingerprint, "another");
}

TEST_F(history_test, a_cold_one_begins_with_what_it_is_given) {
  start(directory, [] { return seed_of("model"); });
  EXPECT_EQ(told, events{"history"});
  EXPECT_EQ(known(), seed_of("model"));
  count(1);
  EXPECT_EQ(known().decayed, (std::vector<std::vector<double>>{{151, 50}}));
  EXPECT_EQ(known().tokens, 101U);
  advance(defaults::history_save_interval);
  EXPECT_EQ(history_store{directory}.load()->history.tokens, 101U) << "it is its own now";
}

TEST_F(history_test, its_own_history_comes_before_a_given_one) {
  start(directory);
  count(1);
  advance(defaults::history_save_interval);
  kill(actor);
  told.clear();
  texts.clear();
  start(directory, []() -> history_snapshot { throw std::runtime_error("nobody should ask"); });
  EXPECT_EQ(told, events{"history"});
  EXPECT_NE(texts[0].find("the given history is not read"), std::string::npos) << texts[0];
  EXPECT_EQ(known().tokens, 1U);
}

TEST_F(history_test, a_given_one_of_another_model_is_dropped_when_a_worker_reports) {
  start("", [] { return seed_of("another"); });
  count(1);
  EXPECT_EQ(told, (events{"history", "history-unused"}));
  EXPECT_EQ(known().decayed, (std::vector<std::vector<double>>{{1, 0}}));
}

TEST_F(history_test, a_given_one_that_makes_no_sense_starts_nothing) {
  auto flawed = seed_of("model");
  flawed.decayed.clear();
  EXPECT_THROW(start("", [&] { return flawed; }), std::runtime_error);
}

TEST_F(history_test, leaves_its_successors_file_alone) {
  start(directory);
  count(1);
  advance(defaults::history_save_interval);
  count(2);
  is_deposed = true;
  advance(defaults::history_save_interval);
  EXPECT_EQ(told, events{"history-unsaved"});
  EXPECT_EQ(count(2), (activation_receipt{2, 1}));
  is_deposed = false;
  restart();
  EXPECT_EQ(known().tokens, 1U) << "as its successor would have found it";
}

TEST_F(history_test, a_disk_that_fails_is_told_of_and_tried_again) {
  start(directory);
  std::filesystem::create_directories(directory + "/history/is a folder"); // where the file would be
  count(1);
  advance(defaults::history_save_interval);
  EXPECT_EQ(told, events{"history-unsaved"});
  EXPECT_NE(texts[0].find(directory + "/history'"), std::string::npos) << texts[0];
  EXPECT_EQ(count(2), (activation_receipt{2, 0})) << "counting goes on";
  std::filesystem::remove_all(directory + "/history");
  advance(defaults::history_save_interval);
  EXPECT_EQ(count(2), (activation_receipt{2, 2}));
}

} // namespace
} // namespace troupe
