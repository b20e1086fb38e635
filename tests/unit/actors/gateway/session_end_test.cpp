// How a session ends: stop, cancel, refusal, deadlines, exit.
#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/gateway/session_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

using session_end_test = session_fixture;

TEST_F(session_end_test, a_stopped_choice_ends_while_others_go_on) {
  auto worker = add_worker(1);
  open(make_request(2));
  tell(update(0, 0, 3));
  tell(stop_atom_v, std::uint32_t{0});
  EXPECT_EQ(listener->choices[0].finish, finish_reason::stop);
  EXPECT_EQ(worker->cancelled, (std::vector<std::pair<sequence_id, std::uint32_t>>{{{{7}, 0}, 0}}));
  tell(update(0, 3, 1));
  EXPECT_EQ(listener->choices[0].tokens.size(), 3U);
  tell(stop_atom_v, std::uint32_t{0});
  tell(stop_atom_v, std::uint32_t{9});
  EXPECT_FALSE(has_ended());
  tell(stop_atom_v, std::uint32_t{1});
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(log->done.size(), 1U);
}

TEST_F(session_end_test, cancel_in_the_queue) {
  log->answers = false;
  open(make_request());
  tell(cancel_atom_v);
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(log->done.size(), 1U) << "so that it leaves the queue";
  EXPECT_TRUE(log->answered.empty()) << "it had no answer";
  EXPECT_TRUE(listener->errors.empty() && listener->choices.empty());
}

TEST_F(session_end_test, cancel_while_running) {
  auto worker = add_worker(1);
  open(make_request(2));
  tell(update(0, 0, 8, 1, finish_reason::length));
  tell(cancel_atom_v);
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(worker->cancelled.size(), 1U);
  EXPECT_EQ(log->done.size(), 1U);
  EXPECT_EQ(log->answered, std::vector<std::uint32_t>{8}) << "the other choice had none";
  EXPECT_TRUE(listener->errors.empty());
  EXPECT_EQ(listener->calls_after_end, 0U);
}

TEST_F(session_end_test, cancel_while_pausing_before_a_replay) {
  auto worker = add_worker(1);
  open(make_request());
  fail_sequence(0, ec::engine_failed);
  advance(1ms);
  fail_sequence(1, ec::engine_failed);
  tell(cancel_atom_v);
  EXPECT_TRUE(has_ended());
  advance(5s);
  EXPECT_EQ(worker->submitted.size(), 2U);
}

TEST_F(session_end_test, a_refusal_is_the_clients) {
  log->refusal = make_error(ec::overloaded, "full");
  open(make_request());
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_EQ(code_of(listener->errors[0]), ec::overloaded);
  EXPECT_TRUE(has_ended());
}

TEST_F(session_end_test, an_admission_without_an_answer_ends) {
  log->answers = false;
  auto request = make_request();
  request.admission_wait = 3s;
  open(request);
  EXPECT_EQ(log->asked[0].deadline_ms, 3000U);
  advance(12s);
  EXPECT_FALSE(has_ended());
  advance(2s);
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_EQ(code_of(listener->errors[0]), ec::deadline_exceeded);
  EXPECT_TRUE(has_ended());
}

TEST_F(session_end_test, the_whole_request_has_a_timeout) {
  auto worker = add_worker(1);
  auto request = make_request();
  request.timeout = 5s;
  open(request);
  advance(4s);
  EXPECT_TRUE(listener->errors.empty());
  advance(2s);
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_EQ(code_of(listener->errors[0]), ec::deadline_exceeded);
  EXPECT_EQ(worker->cancelled.size(), 1U);
}

TEST_F(session_end_test, exit_while_busy_tells_client_worker_and_gateway) {
  auto worker = add_worker(1);
  open(make_request());
  caf::anon_send_exit(session, caf::exit_reason::user_shutdown);
  run();
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_EQ(code_of(listener->errors[0]), ec::shutting_down);
  EXPECT_EQ(worker->cancelled.size(), 1U);
  EXPECT_EQ(log->done.size(), 1U);
}

TEST_F(session_end_test, the_death_of_the_gateway_ends_a_request_without_a_place) {
  log->answers = false;
  open(make_request());
  kill(gateway);
  advance(defaults::admission_wait + 20s);
  ASSERT_EQ(listener->errors.size(), 1U);
  EXPECT_TRUE(listener->is_over());
}

} // namespace
} // namespace troupe
