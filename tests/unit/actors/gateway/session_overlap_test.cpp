// A session with late worker, gateway and answers: results of an older attempt change nothing.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/actors/gateway/session_fixture.hpp"
#include "tests/unit/actors/seeded_links.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// ---------------------------------------------------------------------------------------------------------------
// Any order of events

/// Workers that compute in pieces until a cancellation reaches them. They die, fail, or are declared dead
/// although they continue; a gateway names workers late.
class session_world : public session_fixture {
 public:
  explicit session_world(std::uint32_t seed) : links(*this, seed, 20ms), num_choices(1 + links.below(4)) {
    SetUp();
    log->holds_workers = true;
    log->most_choices = 1 + links.below(4);
    for (std::uint64_t id = 1; id <= 3; ++id)
      add(id);
    open(make_request(num_choices, static_cast<std::int32_t>(length)));
  }

  ~session_world() override { TearDown(); }

  session_world(const session_world&) = delete;
  session_world& operator=(const session_world&) = delete;

  static constexpr std::uint32_t length = 12;

  void add(std::uint64_t id) {
    by_id[id] = add_worker(id);
    seen[id] = 0;
  }

  /// The session's actions since the last look.
  void look() {
    for (; held_seen < log->num_held; ++held_seen)
      links.send(gateway_link, 0, [this] { caf::anon_send(gateway, caf::tick_atom_v); });
    for (; asked_seen < log->asked.size(); ++asked_seen) {
      EXPECT_EQ(log->asked[asked_seen].num_choices, num_unfinished()) << "a place for what is over";
      EXPECT_EQ(log->asked[asked_seen].attempt, asked_seen);
    }
    for (auto& [id, script] : by_id)
      for (; seen.at(id) < script->submitted.size(); ++seen.at(id)) {
        const auto& request = script->submitted[seen.at(id)];
        const auto& avoid = log->asked.at(request.attempt).avoid;
        EXPECT_TRUE(avoid.size() >= by_id.size()
                    || std::find(avoid.begin(), avoid.end(), worker_id{id}) == avoid.end())
            << "attempt " << request.attempt << " runs on worker " << id << ", which has failed it";
        EXPECT_TRUE(computed.emplace(request.id.choice, request.attempt).second) << "submitted twice";
        compute(id, request, static_cast<std::uint32_t>(request.emitted.size()));
      }
  }

  std::uint32_t num_unfinished() {
    std::uint32_t result = 0;
    for (std::uint32_t choice = 0; choice < num_choices; ++choice)
      result += listener->choices[choice].finish == finish_reason::none ? 1 : 0;
    return result;
  }

  /// The next piece of an answer, after a while.
  void compute(std::uint64_t worker, const generation_request& request, std::uint32_t from) {
    links.later(links.up_to(30ms), [this, worker, request, from] {
      const auto found = by_id.find(worker);
      if (found == by_id.end())
        return;
      for (const auto& [id, attempt] : found->second->cancelled)
        if (id == request.id && attempt >= request.attempt)
          return;
      const auto count = std::min(length - from, 1 + links.below(3));
      const auto is_last = from + count == length;
      const auto next = update(request.attempt, from, count, request.id.choice,
                               is_last ? finish_reason::length : finish_reason::none);
      links.send(worker, 0, [this, next] { tell(next); });
      if (!is_last)
        compute(worker, request, from + count);
    });
  }

  void disturb() {
    auto at = by_id.begin();
    std::advance(at, links.below(static_cast<std::uint32_t>(by_id.size())));
    const auto id = at->first;
    switch (links.below(4)) {
    case 0:
      if (by_id.size() > 1) {
        links.forget(id);
        by_id.erase(id);
        log->workers.erase(id);
        kill(workers.at(id));
      }
      break;
    case 1: // of any attempt that it has, or had
      if (!at->second->submitted.empty()) {
        const auto& request =
            at->second->submitted[links.below(static_cast<std::uint32_t>(at->second->submitted.size()))];
        const sequence_failed failed{request.id, request.attempt, ec::engine_failed, "out of memory"};
        links.send(id, 0, [this, failed] { tell(failed); });
      }
      break;
    case 2:
    case 3: // declared dead, even with answers under way; possibly several
      links.send(gateway_link, 0, [this, id] { tell(fence_atom_v, worker_id{id}); });
      break;
    }
  }

  void play() {
    look();
    for (int step = 0; step < 10 && !listener->is_over(); ++step) {
      links.pass(links.up_to(links.one_in(2) ? 5ms : 80ms), [this] { look(); });
      if (!listener->is_over())
        disturb();
    }
    links.pass(60s, [this] { look(); });
    EXPECT_TRUE(listener->is_over()) << "the request is lost";
    EXPECT_TRUE(listener->errors.empty());
    EXPECT_EQ(listener->calls_after_end, 0U);
    EXPECT_TRUE(has_ended());
    for (std::uint32_t choice = 0; choice < num_choices; ++choice) {
      EXPECT_EQ(listener->choices[choice].tokens, expected_tokens(length, choice)) << "choice " << choice;
      EXPECT_EQ(listener->choices[choice].finish, finish_reason::length);
    }
    EXPECT_EQ(log->done.size(), log->asked.size()) << "every place is given back once";
  }

  static constexpr std::uint64_t gateway_link = 1000;

  using session_fixture::log;

  seeded_links links;
  std::uint32_t num_choices;
  std::map<std::uint64_t, std::shared_ptr<worker_script>> by_id; ///< live ones
  std::map<std::uint64_t, std::size_t> seen;                     ///< of what each was sent
  std::set<std::pair<std::uint32_t, std::uint32_t>> computed;    ///< (choice, attempt)
  std::size_t held_seen = 0;
  std::size_t asked_seen = 0;

 private:
  void TestBody() override {}
};

TEST(session_overlap, property_late_messages_of_older_attempts_change_nothing) {
  std::size_t num_attempts = 0;
  const auto* alone = std::getenv("TROUPE_SEED"); // NOLINT(concurrency-mt-unsafe)
  for_each_seed(400, [&](std::uint32_t seed) {
    session_world world{seed};
    world.play();
    num_attempts += world.log->asked.size();
  });
  if (alone == nullptr && !testing::Test::HasFailure())
    EXPECT_GT(num_attempts, 800U) << "hardly anything was disturbed";
}

// ---------------------------------------------------------------------------------------------------------------
// One overlap each

class session_overlap_test : public session_fixture {
 protected:
  /// The oldest question for a worker is answered.
  void name_worker() {
    caf::anon_send(gateway, caf::tick_atom_v);
    run();
  }
};

TEST_F(session_overlap_test, a_worker_that_is_found_too_late_gets_nothing) {
  auto first = add_worker(1);
  log->holds_workers = true;
  open(make_request());
  auto second = add_worker(2);
  tell(fence_atom_v, worker_id{1});
  advance(1ms);
  ASSERT_EQ(log->num_held, 2U);
  name_worker();
  EXPECT_TRUE(first->submitted.empty()) << "that was the answer to the attempt before";
  EXPECT_TRUE(second->submitted.empty());
  name_worker();
  EXPECT_TRUE(first->submitted.empty());
  ASSERT_EQ(second->submitted.size(), 1U);
  EXPECT_EQ(second->submitted[0].attempt, 1U);
}

TEST_F(session_overlap_test, a_worker_that_is_not_found_too_late_costs_no_attempt) {
  add_worker(1);
  log->holds_workers = true;
  open(make_request());
  auto second = add_worker(2);
  tell(fence_atom_v, worker_id{1});
  advance(1ms);
  log->workers.erase(1);
  name_worker();
  advance(1s);
  EXPECT_EQ(log->asked.size(), 2U) << "the present attempt has not failed";
  name_worker();
  EXPECT_EQ(second->submitted.size(), 1U);
}

TEST_F(session_overlap_test, the_fence_of_another_worker_concerns_nobody) {
  auto worker = add_worker(1);
  open(make_request());
  tell(fence_atom_v, worker_id{9});
  advance(1s);
  EXPECT_EQ(log->asked.size(), 1U);
  EXPECT_TRUE(worker->cancelled.empty());
}

TEST_F(session_overlap_test, silence_is_counted_from_the_present_attempt) {
  add_worker(1);
  open(make_request());
  advance(defaults::engine_stall + 2s);
  const auto told = log->silences.size();
  ASSERT_GT(told, 0U);
  add_worker(2);
  tell(fence_atom_v, worker_id{1});
  advance(defaults::engine_stall - 1s);
  EXPECT_EQ(log->silences.size(), told) << "the second has had its request for nine seconds only";
}

} // namespace
} // namespace troupe
