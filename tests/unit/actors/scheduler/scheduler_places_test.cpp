// Places of requests at the scheduler: the turns, the choice of the worker, and when a place is free again.
#include "actors/scheduler/scheduler.hpp"

#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

using scheduler_places_test = scheduler_fixture;

TEST_F(scheduler_places_test, assigns_to_the_least_loaded_worker) {
  start_ready();
  join(attention_hello(2));
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  EXPECT_EQ(admit(request_of(2)).worker(), 2U);
  EXPECT_EQ(admit(request_of(3)).worker(), 1U);
  done(1);
  EXPECT_EQ(admit(request_of(4)).worker(), 1U);
  EXPECT_EQ(admit(request_of(5)).worker(), 2U);
}

TEST_F(scheduler_places_test, avoids_the_workers_that_just_failed) {
  start_ready();
  join(attention_hello(2));
  auto request = request_of(1);
  request.avoid = {{1}};
  EXPECT_EQ(admit(request).worker(), 2U);
  request.id = {2};
  request.avoid = {{1}, {2}};
  EXPECT_EQ(admit(request).worker(), 1U) << "better an avoided one than none";
}

TEST_F(scheduler_places_test, who_avoids_the_only_worker_with_room_holds_up_nobody_and_takes_it_in_the_end) {
  start_ready();
  join(attention_hello(2));
  auto full = request_of(1);
  full.num_choices = 4;
  full.avoid = {{1}};
  EXPECT_EQ(admit(full).worker(), 2U);
  auto replay = request_of(2);
  replay.attempt = 1;
  replay.avoid = {{1}};
  auto& waiting = admit(replay);
  EXPECT_EQ(admit(request_of(3)).worker(), 1U) << "behind it, and not held up";
  EXPECT_FALSE(waiting.is_here) << "the other may soon have room";
  pass(defaults::avoid_wait);
  EXPECT_EQ(waiting.worker(), 1U);
}

TEST_F(scheduler_places_test, queues_by_priority_then_arrival_and_bounds_the_queue) {
  start_ready(2, {.max_num_queued_reqs = 3});
  for (std::uint64_t id = 1; id <= 4; ++id)
    EXPECT_EQ(admit(request_of(id)).worker(), 1U);
  auto urgent = request_of(7);
  urgent.priority = -1;
  auto& first = admit(request_of(5));
  auto& second = admit(request_of(6));
  auto& third = admit(urgent);
  EXPECT_FALSE(first.is_here || second.is_here || third.is_here);
  EXPECT_EQ(status().queued, 3U);
  auto& refused = admit(request_of(8));
  EXPECT_EQ(refused.code(), ec::overloaded) << "at once";
  EXPECT_EQ(metrics->refusals[ec::overloaded], 1U);
  auto replayed = request_of(9);
  replayed.attempt = 1;
  auto& replay = admit(replayed);
  EXPECT_FALSE(replay.is_here) << "what was admitted before is not refused";
  for (std::uint64_t id = 1; id <= 4; ++id)
    done(id);
  EXPECT_LT(replay.number, third.number);
  EXPECT_LT(third.number, first.number);
  EXPECT_LT(first.number, second.number);
  EXPECT_EQ(second.worker(), 1U);
}

TEST_F(scheduler_places_test, keeps_the_budgets_of_sequences_and_kv) {
  start_ready();
  auto wide = request_of(1);
  wide.num_choices = 3;
  EXPECT_EQ(admit(wide).worker(), 1U);
  wide.id = {2};
  wide.num_choices = 2;
  auto& waits_for_sequences = admit(wide);
  EXPECT_FALSE(waits_for_sequences.is_here);
  done(1);
  EXPECT_EQ(waits_for_sequences.worker(), 1U);
  done(2);
  EXPECT_EQ(admit(request_of(3, 400, 100)).worker(), 1U);
  EXPECT_EQ(admit(request_of(4, 400, 100)).worker(), 1U);
  auto& waits_for_kv = admit(request_of(5, 1, 1));
  EXPECT_FALSE(waits_for_kv.is_here);
  done(4);
  EXPECT_EQ(waits_for_kv.worker(), 1U);
}

TEST_F(scheduler_places_test, who_fits_goes_before_who_does_not_fit_yet_and_only_for_a_while) {
  start_ready();
  auto wide = request_of(1);
  wide.num_choices = 3;
  wide.deadline_ms = 60'000;
  EXPECT_EQ(admit(wide).worker(), 1U);
  wide.id = {2};
  auto& first = admit(wide);
  EXPECT_FALSE(first.is_here);
  EXPECT_EQ(admit(request_of(3)).worker(), 1U) << "a seat is free";
  done(3);
  pass(defaults::overtaking);
  auto& second = admit(request_of(4));
  EXPECT_FALSE(second.is_here) << "a seat is free, and kept";
  EXPECT_FALSE(first.is_here);
  done(1);
  EXPECT_EQ(first.worker(), 1U);
  EXPECT_EQ(second.worker(), 1U);
}

TEST_F(scheduler_places_test, refuses_at_once_what_never_fits) {
  start_ready();
  auto& long_one = admit(request_of(1, 400, 101));
  EXPECT_EQ(
      system.render(long_one.result.error()),
      "troupe: context_exceeded: prompt and new tokens need 501 positions, the longest context here has "
      "500");
  EXPECT_EQ(admit(request_of(4, 0, 1)).code(), ec::bad_request);
}

TEST_F(scheduler_places_test, a_request_waits_no_longer_than_its_deadline) {
  start_ready();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_of(id));
  auto& late = admit(request_of(5));
  pass(9900ms);
  EXPECT_FALSE(late.is_here);
  pass(300ms);
  EXPECT_EQ(late.code(), ec::deadline_exceeded);
}

TEST_F(scheduler_places_test, a_request_for_which_there_is_no_cluster_ends_as_not_ready) {
  start();
  auto& early = admit(request_of(1));
  pass(10200ms);
  EXPECT_EQ(early.code(), ec::not_ready);
}

TEST_F(scheduler_places_test, requests_wait_for_the_cluster_to_become_ready) {
  start();
  auto& early = admit(request_of(1));
  join(attention_hello(1));
  EXPECT_FALSE(early.is_here);
  join(expert_hello(11));
  EXPECT_EQ(early.worker(), 1U);
}

TEST_F(scheduler_places_test, a_request_that_is_no_longer_wanted_leaves_the_queue) {
  start_ready();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_of(id));
  auto& waiting = admit(request_of(5));
  done(5);
  EXPECT_EQ(waiting.code(), ec::cancelled);
  EXPECT_EQ(status().queued, 0U);
}

TEST_F(scheduler_places_test, asking_again_for_too_much_takes_the_earlier_question_back) {
  start();
  auto& first = admit(request_of(1)); // no worker has joined yet
  join(attention_hello(1));
  EXPECT_EQ(admit(request_of(1, 400, 200)).code(), ec::context_exceeded);
  EXPECT_EQ(first.code(), ec::cancelled);
  EXPECT_EQ(status().queued, 0U);
  join(expert_hello(11));
  EXPECT_EQ(status().assigned, 0U);
}

TEST_F(scheduler_places_test, asking_again_for_nothing_takes_the_earlier_question_back) {
  start();
  auto& first = admit(request_of(1));
  EXPECT_EQ(admit(request_of(1, 10, 0)).code(), ec::bad_request);
  EXPECT_EQ(first.code(), ec::cancelled);
  EXPECT_EQ(status().queued, 0U);
  join(attention_hello(1));
  join(expert_hello(11));
  EXPECT_EQ(status().assigned, 0U) << "and the scheduler lives";
}

TEST_F(scheduler_places_test, asking_again_replaces_the_earlier_question) {
  start_ready();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_of(id));
  auto& first = admit(request_of(5));
  auto& second = admit(request_of(5));
  EXPECT_EQ(first.code(), ec::cancelled);
  EXPECT_EQ(status().queued, 1U);
  done(1);
  EXPECT_EQ(second.worker(), 1U);
  auto again = request_of(5);
  again.attempt = 1;
  EXPECT_EQ(admit(again).worker(), 1U) << "its own earlier place is free for it";
  EXPECT_EQ(status().assigned, 4U);
}

TEST_F(scheduler_places_test, the_places_on_a_dead_worker_are_gone) {
  start_ready();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_of(id));
  join(attention_hello(2));
  die(peers[0]);
  EXPECT_EQ(status().assigned, 0U);
  auto replay = request_of(1);
  replay.attempt = 1;
  replay.avoid = {{1}};
  EXPECT_EQ(admit(replay).worker(), 2U);
}

TEST_F(scheduler_places_test, the_places_of_a_dead_gateway_are_free) {
  start_ready();
  join(attention_hello(2));
  const auto lost = add_gateway();
  const auto other = add_gateway();
  for (std::uint64_t id = 1; id <= 8; ++id) // workers take turns: 1, 2, 1, 2, ...
    admit(request_of(id), id % 2 == 1 ? lost : other);
  auto& orphan = admit(request_of(9), lost);
  auto& waiting = admit(request_of(10), other);
  auto& behind = admit(request_of(11), other);
  EXPECT_FALSE(waiting.is_here);
  kill(lost);
  EXPECT_EQ(waiting.worker(), 1U) << "where the dead gateway's requests were";
  EXPECT_EQ(behind.worker(), 1U);
  EXPECT_FALSE(orphan.is_here);
  EXPECT_EQ(status().queued, 0U) << "nobody waits for the dead gateway's request";
  EXPECT_EQ(status().assigned, 6U);
  EXPECT_EQ(metrics->waits.size(), 10U) << "it has never had a place";
  EXPECT_EQ(admit(request_of(12), other).worker(), 1U);
  EXPECT_EQ(admit(request_of(13), other).worker(), 1U);
  EXPECT_FALSE(admit(request_of(14), other).is_here) << "all eight seats are taken again, and no more";
}

TEST_F(scheduler_places_test, tells_what_becomes_of_a_request) {
  start_ready();
  auto request = request_of(1);
  request.context = {"my-id", ""};
  admit(request);
  ASSERT_EQ(metrics->requests.size(), 2U);
  EXPECT_EQ(metrics->requests[0].substr(0, 21), "my-id request-queued ");
  EXPECT_EQ(metrics->requests[1].substr(0, 21), "my-id request-placed ");
  caf::anon_send(scheduler, done_atom_v, request.id);
  settle();
  EXPECT_EQ(metrics->requests.back(), "my-id request-released its place is free");
}

} // namespace
} // namespace troupe
