// Which workers that leave are let go, each exactly once.
#include <map>

#include <gtest/gtest.h>

#include "actors/protocol/error.hpp"
#include "actors/scheduler/departure_desk.hpp"

namespace troupe {
namespace {

class departure_desk_test : public ::testing::Test {
 public:
  void begin(std::uint64_t id) {
    desk.begin({id}, [this, id](const caf::error& error) { answers[id].push_back(code_of(error)); });
  }

  departure_desk desk;
  std::map<std::uint64_t, std::vector<ec>> answers;
};

TEST_F(departure_desk_test, a_worker_waits_until_it_is_removed) {
  begin(1);
  begin(2);
  EXPECT_EQ(desk.find([](worker_id id) { return id.value == 2; }), (std::vector<worker_id>{{2}}));
  EXPECT_TRUE(answers.empty());
  desk.removed({2});
  desk.removed({2});
  desk.removed({3});
  EXPECT_EQ(answers, (std::map<std::uint64_t, std::vector<ec>>{{2, {ec::none}}}));
  EXPECT_EQ(desk.find([](worker_id) { return true; }), (std::vector<worker_id>{{1}}));
}

TEST_F(departure_desk_test, a_worker_that_asks_again_has_its_first_question_cancelled) {
  begin(1);
  begin(1);
  EXPECT_EQ(answers[1], (std::vector<ec>{ec::cancelled}));
  desk.removed({1});
  EXPECT_EQ(answers[1], (std::vector<ec>{ec::cancelled, ec::none}));
}

TEST_F(departure_desk_test, a_scheduler_that_ends_answers_all) {
  begin(1);
  begin(2);
  desk.shut_down(make_error(ec::shutting_down, "the scheduler is shutting down"));
  desk.shut_down({});
  desk.removed({1});
  EXPECT_EQ(answers,
            (std::map<std::uint64_t, std::vector<ec>>{{1, {ec::shutting_down}}, {2, {ec::shutting_down}}}));
}

} // namespace
} // namespace troupe
