// What requests are answered, and what becomes of them when their gateway goes.
#include <gtest/gtest.h>

#include "actors/scheduler/request_desk.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

const request_desk::actor_key gateway_actor{{}, 5};

struct request_desk_test : testing::Test {
  request_desk_test() {
    members.join(attention_hello(1), start_time);
    desk.admission().add_worker(attention_hello(1));
  }

  bool admit(admission_request request, std::uint64_t gateway = 101) {
    request.gateway = {gateway};
    request.context.id = "r" + std::to_string(request.id.value);
    return desk.admit(
        request, gateway_actor,
        [this, id = request.id.value](const caf::expected<assignment>& answer) {
          answers[id].push_back(answer ? ec::none : code_of(answer.error()));
        },
        start_time);
  }

  void place() { desk.place(members, start_time); }

  std::size_t num_placed() const { return desk.admission().num_placed(); }

  using codes = std::vector<ec>;

  std::shared_ptr<recording_metrics> metrics = std::make_shared<recording_metrics>();
  member_table members;
  request_desk desk{admission_policy{{}}, metrics};
  std::map<std::uint64_t, codes> answers;
};

TEST_F(request_desk_test, a_request_is_queued_placed_and_released) {
  EXPECT_TRUE(admit(request_of(1)));
  EXPECT_TRUE(answers.empty());
  place();
  EXPECT_EQ(answers[1], codes{ec::none});
  EXPECT_EQ(num_placed(), 1U);
  desk.done({1}, 10);
  EXPECT_EQ(num_placed(), 0U);
  EXPECT_EQ(answers[1], codes{ec::none});
  EXPECT_EQ(metrics->requests,
            (std::vector<std::string>{"r1 request-queued 10 prompt tokens, 1 choices, attempt 0",
                                      "r1 request-placed on attention-1 after 0 ms in the queue",
                                      "r1 request-released its place is free"}));
}

TEST_F(request_desk_test, each_question_is_answered_once) {
  EXPECT_FALSE(admit(request_of(1, 5000)));
  EXPECT_EQ(answers[1], codes{ec::context_exceeded});
  EXPECT_EQ(metrics->refusals[ec::context_exceeded], 1U);
  admit(request_of(2));
  admit(request_of(2));
  EXPECT_EQ(answers[2], codes{ec::cancelled}) << "it was made again";
  desk.done({2}, 0);
  EXPECT_EQ(answers[2], (codes{ec::cancelled, ec::cancelled}));
  admit(request_of(3));
  desk.expire(start_time + std::chrono::seconds{20}, false);
  EXPECT_EQ(answers[3], codes{ec::not_ready});
  admit(request_of(4));
  desk.shut_down(make_error(ec::shutting_down, "over"));
  EXPECT_EQ(answers[4], codes{ec::shutting_down});
}

TEST_F(request_desk_test, a_cut_gateway_keeps_places_for_a_lease_and_loses_what_waits) {
  admit(request_of(1));
  place();
  admit(request_of(2));
  desk.cut({101}, start_time);
  EXPECT_EQ(answers[2], codes{ec::peer_down});
  desk.removed({101});
  EXPECT_EQ(num_placed(), 1U) << "it may come back";
  desk.extend(std::chrono::seconds{1});
  desk.expire(start_time + defaults::lease, true);
  EXPECT_EQ(num_placed(), 1U) << "the scheduler stood still meanwhile";
  desk.expire(start_time + defaults::lease + std::chrono::seconds{1}, true);
  EXPECT_EQ(num_placed(), 0U);
}

TEST_F(request_desk_test, a_dead_gateway_has_nothing) {
  admit(request_of(1));
  admit(request_of(2), 102);
  place();
  desk.removed({101});
  EXPECT_EQ(num_placed(), 1U);
  desk.actor_down({{}, 6}, false, start_time);
  EXPECT_EQ(num_placed(), 1U) << "of another gateway actor";
  desk.actor_down(gateway_actor, false, start_time);
  EXPECT_EQ(num_placed(), 0U);
}

TEST_F(request_desk_test, a_gateway_that_joins_names_its_places) {
  admit(request_of(1));
  admit(request_of(2));
  place();
  desk.adopt(gateway_hello(101, {{.request = {2}, .worker = {1}, .num_seqs = 1}}));
  EXPECT_EQ(num_placed(), 1U);
  desk.done({2}, 0);
  EXPECT_EQ(num_placed(), 0U);
}

} // namespace
} // namespace troupe
