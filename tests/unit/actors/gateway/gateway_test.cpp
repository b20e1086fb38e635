#include <gmock/gmock.h>

#include "actors/history/history.hpp"
#include "tests/unit/actors/gateway/gateway_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST_F(gateway_test, passes_the_question_and_the_answer_on) {
  start_scheduler();
  auto& first = admit(request_of(1));
  auto& second = admit(request_of(2));
  ASSERT_EQ(script->asked.size(), 2U);
  auto passed_on = request_of(1);
  passed_on.gateway = script->asked[0].gateway; // says whose it is
  EXPECT_EQ(script->asked[0], passed_on);
  EXPECT_NE(passed_on.gateway.value, 0U);
  EXPECT_FALSE(first.is_here);
  scheduler_answers(place(2, 5));
  EXPECT_EQ(second.worker(), 5U);
  EXPECT_FALSE(first.is_here);
  EXPECT_EQ(load().running, 1U);
  EXPECT_EQ(load().waiting, 1U);
  scheduler_answers(place(1, 6));
  EXPECT_EQ(first.worker(), 6U);
  tell(done_atom_v, request_id{2});
  EXPECT_EQ(script->done, (std::vector<request_id>{{2}}));
  EXPECT_EQ(load().running, 1U);
}

TEST_F(gateway_test, a_refusal_keeps_its_code_and_its_words) {
  start_scheduler();
  std::uint64_t id = 0;
  for (const auto code :
       {ec::overloaded, ec::not_ready, ec::context_exceeded, ec::deadline_exceeded, ec::bad_request}) {
    auto& refused = admit(request_of(++id));
    scheduler_answers(request_id{id}, make_error(code, "for a reason"));
    EXPECT_EQ(refused.code(), code);
    EXPECT_EQ(text_of(refused.result.error()), "for a reason");
  }
  EXPECT_EQ(load().waiting, 0U);
  EXPECT_TRUE(script->done.empty()) << "who was refused has nothing to give back";
}

TEST_F(gateway_test, new_requests_wait_two_seconds_for_an_absent_scheduler) {
  auto& held = admit(request_of(1));
  advance(defaults::scheduler_away - 1ms);
  EXPECT_FALSE(held.is_here);
  advance(1ms);
  EXPECT_EQ(held.code(), ec::not_ready);
  EXPECT_EQ(load().waiting, 0U);
}

TEST_F(gateway_test, a_question_that_is_given_up_while_held_is_taken_back_from_whoever_still_has_it) {
  start_scheduler();
  auto& held = admit(request_of(1));
  lose_scheduler(); // it may have fenced us, and still hold its queue
  advance(defaults::scheduler_away);
  EXPECT_EQ(held.code(), ec::not_ready);
  start_scheduler();
  EXPECT_EQ(script->done, (std::vector<request_id>{{1}}));
  EXPECT_TRUE(script->asked.empty());
}

TEST_F(gateway_test, requests_whose_clients_have_answers_wait_as_long_as_they_may) {
  auto request = request_of(1);
  request.follows = true;
  request.deadline_ms = 10'000;
  auto& held = admit(request);
  advance(9'999ms);
  EXPECT_FALSE(held.is_here);
  start_scheduler();
  EXPECT_TRUE(script->asked.at(0).follows);
  scheduler_answers(place(1, 4));
  EXPECT_EQ(held.worker(), 4U);
}

TEST_F(gateway_test, requests_with_less_time_wait_less_and_say_so) {
  auto request = request_of(1);
  request.deadline_ms = 300;
  auto& held = admit(request);
  advance(299ms);
  EXPECT_FALSE(held.is_here);
  advance(1ms);
  EXPECT_EQ(held.code(), ec::not_ready);
}

TEST_F(gateway_test, held_requests_are_asked_in_their_order_with_the_time_that_is_left) {
  for (const std::uint64_t id : {9U, 3U, 5U})
    admit(request_of(id));
  advance(1500ms);
  start_scheduler();
  ASSERT_EQ(script->asked.size(), 3U);
  EXPECT_EQ(script->asked[0].id.value, 9U);
  EXPECT_EQ(script->asked[1].id.value, 3U);
  EXPECT_EQ(script->asked[2].id.value, 5U);
  EXPECT_EQ(script->asked[0].deadline_ms, 8500U);
  scheduler_answers(place(3, 1));
  EXPECT_EQ(answers[1].worker(), 1U);
  advance(3s);
  EXPECT_FALSE(answers[0].is_here) << "it waits in the scheduler's queue now, not here";
}

TEST_F(gateway_test, what_an_earlier_scheduler_was_asked_the_next_one_is_asked_again) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  lose_scheduler();
  EXPECT_FALSE(waiting.is_here);
  advance(1s);
  start_scheduler();
  ASSERT_EQ(script->asked.size(), 1U);
  scheduler_answers(place(1, 4));
  EXPECT_EQ(waiting.worker(), 4U);
}

TEST_F(gateway_test, a_scheduler_that_has_died_unnoticed_is_no_refusal) {
  start_scheduler();
  kill(scheduler); // the member has not said so yet
  auto& waiting = admit(request_of(1));
  EXPECT_FALSE(waiting.is_here);
  start_scheduler();
  scheduler_answers(place(1, 4));
  EXPECT_EQ(waiting.worker(), 4U);
}

TEST_F(gateway_test, a_scheduler_that_shuts_down_is_waited_for) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  scheduler_answers(request_id{1}, make_error(ec::shutting_down, "the scheduler is shutting down"));
  EXPECT_FALSE(waiting.is_here);
  advance(defaults::scheduler_away);
  EXPECT_EQ(waiting.code(), ec::not_ready);
}

TEST_F(gateway_test, an_answer_of_the_scheduler_before_is_void) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  const auto earlier = scheduler;
  start_scheduler(); // the earlier one was fenced, and is still there
  caf::anon_send(earlier, caf::put_atom_v, place(1, 4));
  run();
  EXPECT_FALSE(waiting.is_here);
  scheduler_answers(place(1, 5));
  EXPECT_EQ(waiting.worker(), 5U);
}

TEST_F(gateway_test, a_refusal_of_the_scheduler_before_is_void) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  const auto earlier = scheduler;
  start_scheduler();
  caf::anon_send(earlier, caf::put_atom_v, request_id{1}, make_error(ec::overloaded, "full"));
  run();
  EXPECT_FALSE(waiting.is_here) << "the present one may well have room";
  scheduler_answers(place(1, 5));
  EXPECT_EQ(waiting.worker(), 5U);
}

TEST_F(gateway_test, what_was_asked_of_a_scheduler_that_is_gone_waits_no_longer_than_what_is_new) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  lose_scheduler();
  advance(defaults::scheduler_away - 1ms);
  EXPECT_FALSE(waiting.is_here);
  advance(1ms);
  EXPECT_EQ(waiting.code(), ec::not_ready);
}

TEST_F(gateway_test, what_was_held_once_takes_no_room_later) {
  const auto half =
      request_of(1, static_cast<std::uint32_t>(defaults::max_held_bytes / 2 / sizeof(std::int32_t)) - 256);
  for (std::uint64_t id = 1; id <= 6; id += 2) {
    for (auto number : {id, id + 1}) {
      auto request = half;
      request.id = {number};
      auto& held = admit(request);
      EXPECT_FALSE(held.is_here) << "request " << number;
    }
    advance(defaults::scheduler_away);
    EXPECT_EQ(answers.back().code(), ec::not_ready);
  }
}

TEST_F(gateway_test, replays_wait_for_the_scheduler_until_their_own_deadline) {
  auto request = request_of(1);
  request.attempt = 1;
  auto& replay = admit(request);
  advance(9999ms);
  EXPECT_FALSE(replay.is_here) << "its client has tokens already";
  advance(1ms);
  EXPECT_EQ(replay.code(), ec::not_ready);
}

TEST_F(gateway_test, holds_no_more_than_it_may_but_every_replay) {
  const auto half =
      request_of(1, static_cast<std::uint32_t>(defaults::max_held_bytes / 2 / sizeof(std::int32_t)) - 256);
  admit(half);
  auto other = half;
  other.id = {2};
  EXPECT_FALSE(admit(other).is_here);
  EXPECT_EQ(admit(request_of(5000)).code(), ec::overloaded);
  auto replay = request_of(5001);
  replay.attempt = 1;
  EXPECT_FALSE(admit(replay).is_here);
  start_scheduler();
  EXPECT_EQ(script->asked.size(), 3U);
}

TEST_F(gateway_test, holds_thousands_of_short_requests) {
  for (std::uint64_t id = 1; id <= 2000; ++id)
    admit(request_of(id));
  start_scheduler();
  EXPECT_EQ(script->asked.size(), 2000U);
}

TEST_F(gateway_test, tells_the_longest_context_and_keeps_it_while_nobody_is_there) {
  auto view = view_of({1});
  view.max_model_len = 400;
  tell(view);
  tell(view);
  tell(view_of({})); // the last worker has died, and one like it will come
  EXPECT_EQ(contexts, std::vector<std::uint32_t>{400});
  view.max_model_len = 300;
  tell(view);
  EXPECT_EQ(contexts, (std::vector<std::uint32_t>{400, 300}));
}

TEST_F(gateway_test, a_scheduler_without_an_answer_is_no_endless_wait) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  advance(10s + defaults::local_request - 1ms);
  EXPECT_FALSE(waiting.is_here);
  advance(1ms);
  EXPECT_EQ(waiting.code(), ec::deadline_exceeded);
  EXPECT_EQ(script->done, (std::vector<request_id>{{1}})) << "should it give a place yet";
}

TEST_F(gateway_test, a_scheduler_that_took_this_gateway_for_dead_is_asked_again_once_it_has_it_back) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  scheduler_answers(request_id{1}, make_error(ec::peer_down, "the gateway has not renewed its lease"));
  EXPECT_FALSE(waiting.is_here);
  lose_scheduler(); // the member was fenced
  start_scheduler();
  scheduler_answers(place(1, 4));
  EXPECT_EQ(waiting.worker(), 4U);
}

TEST_F(gateway_test, a_client_that_leaves_the_queue_is_told_to_the_scheduler) {
  start_scheduler();
  auto& waiting = admit(request_of(1));
  tell(done_atom_v, request_id{1});
  EXPECT_EQ(waiting.code(), ec::cancelled);
  EXPECT_EQ(script->done, (std::vector<request_id>{{1}}));
  scheduler_answers(place(1, 4)); // crossed the word that it is not wanted
  EXPECT_EQ(load().running, 0U);
}

TEST_F(gateway_test, a_client_that_leaves_while_held_concerns_nobody) {
  auto& held = admit(request_of(1));
  tell(done_atom_v, request_id{1});
  EXPECT_EQ(held.code(), ec::cancelled);
  tell(done_atom_v, request_id{2}); // never heard of
  start_scheduler();
  EXPECT_TRUE(script->asked.empty());
  EXPECT_TRUE(script->done.empty());
}

TEST_F(gateway_test, what_ends_while_the_scheduler_is_away_is_told_to_the_next_one) {
  start_scheduler();
  admit(request_of(1));
  admit(request_of(2));
  scheduler_answers(place(1, 4));
  lose_scheduler();
  tell(done_atom_v, request_id{1});
  tell(done_atom_v, request_id{2});
  start_scheduler();
  EXPECT_EQ(script->done, (std::vector<request_id>{{1}, {2}}))
      << "also what was only asked for: a scheduler that has fenced us still has its queue";
  EXPECT_TRUE(script->asked.empty());
}

TEST_F(gateway_test, the_length_of_an_answer_is_told_to_the_scheduler) {
  start_scheduler();
  admit(request_of(1));
  scheduler_answers(place(1, 4));
  tell(done_atom_v, request_id{1}, std::uint32_t{70});
  EXPECT_EQ(script->done, (std::vector<request_id>{{1}}));
  EXPECT_EQ(script->answered, std::vector<std::uint32_t>{70});
  EXPECT_EQ(load().running, 0U);
}

TEST_F(gateway_test, asking_again_replaces_the_earlier_question) {
  start_scheduler();
  auto& first = admit(request_of(1));
  auto& second = admit(request_of(1));
  EXPECT_EQ(first.code(), ec::cancelled);
  scheduler_answers(place(1, 4)); // to the first question
  EXPECT_FALSE(second.is_here);
  scheduler_answers(place(1, 5));
  EXPECT_EQ(second.worker(), 5U);
}

TEST_F(gateway_test, finds_attention_workers_once_for_all_sessions) {
  const auto worker =
      root(system.spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; }));
  const auto handle = caf::actor_cast<caf::strong_actor_ptr>(worker);
  const auto address = attention_hello(4).address;
  const auto missing = ask<caf::strong_actor_ptr>(gateway, caf::resolve_atom_v, address);
  ASSERT_FALSE(missing);
  EXPECT_EQ(code_of(missing.error()), ec::peer_down);
  caf::anon_send(directory, caf::publish_atom_v, address.name, handle);
  EXPECT_EQ(*ask<caf::strong_actor_ptr>(gateway, caf::resolve_atom_v, address), handle);
  caf::anon_send(directory, caf::publish_atom_v, address.name, caf::strong_actor_ptr{});
  EXPECT_EQ(*ask<caf::strong_actor_ptr>(gateway, caf::resolve_atom_v, address), handle) << "known by now";
  kill(worker);
  EXPECT_FALSE(ask<caf::strong_actor_ptr>(gateway, caf::resolve_atom_v, address)) << "and forgotten again";
}

TEST_F(gateway_test, a_directory_without_an_answer_is_a_worker_that_is_down) {
  kill(directory);
  const auto result = ask<caf::strong_actor_ptr>(gateway, caf::resolve_atom_v, attention_hello(4).address);
  ASSERT_FALSE(result);
  EXPECT_EQ(code_of(result.error()), ec::peer_down);
}

TEST_F(gateway_test, sessions_hear_that_their_worker_has_left_the_cluster) {
  start_scheduler();
  tell(view_of({4, 5}));
  auto fenced = std::make_shared<std::vector<worker_id>>();
  open_session(1, 4, fenced);
  open_session(2, 5, fenced);
  tell(view_of({4, 5, 6}));
  EXPECT_TRUE(fenced->empty());
  tell(view_of({5, 6}));
  EXPECT_EQ(*fenced, (std::vector<worker_id>{{4}}));
  EXPECT_EQ(known().view.workers.size(), 2U);
}

TEST_F(gateway_test, complains_of_workers_from_which_sessions_hear_nothing) {
  start_scheduler();
  for (const auto& [id, worker] : {std::pair{1U, 3U}, {2U, 3U}, {3U, 4U}, {4U, 5U}}) {
    admit(request_of(id));
    scheduler_answers(place(id, worker));
  }
  EXPECT_TRUE(complaints().empty());
  tell(silent_atom_v, request_id{1}, std::uint64_t{11'000});
  tell(silent_atom_v, request_id{2}, std::uint64_t{12'000});
  tell(silent_atom_v, request_id{3}, std::uint64_t{10'500});
  tell(silent_atom_v, request_id{9}, std::uint64_t{99'000}); // it has ended meanwhile
  advance(500ms);
  EXPECT_EQ(complaints(), (std::vector<complaint>{{{3}, 12'500}, {{4}, 11'000}}));
  tell(silent_atom_v, request_id{1}, std::uint64_t{11'500});
  tell(done_atom_v, request_id{3});
  advance(1600ms);
  EXPECT_EQ(complaints(), (std::vector<complaint>{{{3}, 13'100}})) << "request 2 has heard something";
  advance(2s);
  EXPECT_TRUE(complaints().empty());
}

TEST_F(gateway_test, says_what_its_requests_hold_when_it_joins_again) {
  start_scheduler();
  auto request = request_of(1, 100, 50);
  request.num_choices = 3;
  admit(request);
  EXPECT_EQ(script->asked.back().gateway, worker_id{70});
  auto granted = place(1, 3);
  granted.num_choices = 2; // fewer than asked for, and less room than they may grow to
  granted.kv_tokens = 210;
  scheduler_answers(granted);
  admit(request_of(2));
  scheduler_answers(place(2, 4));
  admit(request_of(3)); // waits
  tell(scheduler_atom_v, caf::strong_actor_ptr{});
  tell(done_atom_v, request_id{2});
  const auto hello = ask<worker_hello>(gateway, caf::join_atom_v);
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->of_role, (role_terms{gateway_terms{{{{1}, {3}, 2, 210}}}}));
}

TEST_F(gateway_test, says_that_the_scheduler_is_away_once_new_requests_are_refused) {
  const auto away = [this] { return known().is_away; };
  EXPECT_FALSE(away());
  advance(defaults::scheduler_away);
  EXPECT_TRUE(away()) << "there never was one";
  start_scheduler();
  EXPECT_FALSE(away());
  lose_scheduler();
  advance(defaults::scheduler_away - 1ms);
  EXPECT_FALSE(away());
  tell(scheduler_atom_v, caf::strong_actor_ptr{}); // it is still lost, not lost again
  advance(1ms);
  EXPECT_TRUE(away());
  start_scheduler();
  EXPECT_FALSE(away());
}

TEST_F(gateway_test, remembers_that_the_cluster_was_ready) {
  EXPECT_FALSE(known().has_been_ready);
  cluster_view view;
  tell(view);
  EXPECT_FALSE(known().has_been_ready);
  view.ready = true;
  tell(view);
  EXPECT_TRUE(known().has_been_ready);
  tell(cluster_view{});
  EXPECT_FALSE(known().view.ready);
  EXPECT_TRUE(known().has_been_ready);
}

TEST_F(gateway_test, exit_while_busy_answers_everyone) {
  auto& held = admit(request_of(1));
  start_scheduler();
  auto& asked = admit(request_of(2));
  caf::anon_send_exit(gateway, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(held.code(), ec::shutting_down);
  EXPECT_EQ(asked.code(), ec::shutting_down);
}

} // namespace
} // namespace troupe
