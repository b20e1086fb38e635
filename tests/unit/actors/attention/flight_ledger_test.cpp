#include "actors/attention/flight_ledger.hpp"

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr worker_id host_a{1};
constexpr worker_id host_b{2};
constexpr flight_ledger::time_point sent_at{1000s};

// Two rows of two experts each: expert 0 has slots 0 and 2, expert 1 has slots 1 and 3.
moe_dispatch two_rows() {
  moe_dispatch result;
  result.num_rows = 2;
  result.num_topk = 2;
  result.offsets = {0, 2, 4};
  result.slots = {0, 2, 1, 3};
  return result;
}

sent_batch batch_of(const layer_flight& flight, worker_id host) {
  sent_batch result;
  result.host = host;
  result.micro_batch = flight.micro_batch;
  result.serial = flight.serial;
  result.since = sent_at;
  result.share.experts = {0, 1};
  result.share.offsets = {0, 2, 4};
  result.share.slots = {0, 2, 1, 3};
  return result;
}

TEST(flight_ledger, the_first_answer_to_a_slot_counts) {
  flight_ledger ledger;
  auto& flight = ledger.begin(1, two_rows(), 0, sent_at);
  EXPECT_TRUE(flight.answer({0, 2}, payload::allocate(2), 40, sent_at + 1s));
  EXPECT_TRUE(flight.answer({2, 1}, payload::allocate(2), 30, sent_at + 2s));
  EXPECT_FALSE(flight.answer({0, 1}, payload::allocate(2), 90, sent_at + 3s));
  EXPECT_EQ(flight.missing, 1U);
  EXPECT_EQ(flight.expert_ns, 40U);
  EXPECT_EQ(flight.progress, sent_at + 2s);
  ASSERT_EQ(flight.outputs.size(), 2U);
  EXPECT_EQ(flight.outputs[1].slots, (std::vector{expert_outputs::unused, std::uint32_t{1}}));
  EXPECT_EQ(flight.unanswered(batch_of(flight, host_a).share), (std::vector<expert_entries>{{1, {3}}}));
}

TEST(flight_ledger, parked_entries_leave_as_one_dispatch) {
  flight_ledger ledger;
  auto& flight = ledger.begin(1, two_rows(), 0, sent_at);
  EXPECT_TRUE(ledger.parked().empty());
  flight.parked = {{1, {3, 1}}, {0, {2}}, {1, {1}}};
  EXPECT_EQ(ledger.parked(), std::vector{std::uint32_t{1}});
  flight.answer({2}, payload::allocate(1), 0, sent_at);
  EXPECT_EQ(flight.take_parked(), (std::vector<expert_entries>{{1, {1, 3}}}));
  EXPECT_TRUE(flight.parked.empty());
}

TEST(flight_ledger, a_batch_of_the_layer_before_has_no_flight) {
  flight_ledger ledger;
  const auto before = batch_of(ledger.begin(1, two_rows(), 0, sent_at), host_a);
  EXPECT_EQ(ledger.flight_of(before), ledger.find(1));
  const auto present = batch_of(ledger.begin(1, two_rows(), 0, sent_at), host_a);
  EXPECT_EQ(ledger.flight_of(before), nullptr);
  EXPECT_EQ(ledger.flight_of(present), ledger.find(1));
  ledger.end(1);
  EXPECT_EQ(ledger.flight_of(present), nullptr);
}

TEST(flight_ledger, a_batch_is_taken_once) {
  flight_ledger ledger;
  const auto& flight = ledger.begin(1, two_rows(), 0, sent_at);
  for (const auto host : {host_a, host_b, host_a})
    ledger.add(ledger.next_number(), batch_of(flight, host));
  EXPECT_EQ(ledger.sent_to(host_a), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(ledger.take(1)->host, host_a);
  EXPECT_FALSE(ledger.take(1));
  EXPECT_EQ(ledger.batch(1), nullptr);
  EXPECT_EQ(ledger.sent_to(host_a), std::vector<std::uint64_t>{3});
  ledger.end(1);
  EXPECT_FALSE(ledger.is_empty()) << "answers are still awaited";
}

TEST(flight_ledger, finds_late_batches) {
  flight_ledger ledger;
  lateness_policy lateness;
  lateness.answered(4, 20ms);
  auto& flight = ledger.begin(1, two_rows(), 0, sent_at);
  for (int i = 0; i < 3; ++i)
    ledger.add(ledger.next_number(), batch_of(flight, host_a));
  ledger.batch(2)->hedged = true;
  ledger.batch(3)->repeated = true;
  EXPECT_TRUE(ledger.find_late(lateness, sent_at + 99ms).late.empty());
  EXPECT_EQ(ledger.find_late(lateness, sent_at + 100ms).late, std::vector<std::uint64_t>{1});
  const auto found = ledger.find_late(lateness, sent_at + defaults::expert_batch_timeout);
  EXPECT_EQ(found.overdue, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(found.late.empty());
  ++flight.repeats;
  EXPECT_TRUE(ledger.find_late(lateness, sent_at + defaults::expert_batch_timeout).overdue.empty());
  ledger.end(1);
  EXPECT_EQ(ledger.find_late(lateness, sent_at + defaults::expert_batch_timeout).overdue,
            (std::vector<std::uint64_t>{1, 2}))
      << "their hosts owe answers still";
  EXPECT_EQ(ledger.batch(3), nullptr) << "nothing waits for a repeated batch of a layer that is over";
}

} // namespace
} // namespace troupe
