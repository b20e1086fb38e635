// The history's counts, its ageing, and what it keeps, without actors and with the test's time.
#include "actors/history/activation_history.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using matrix = std::vector<std::vector<double>>;

class activation_history_test : public ::testing::Test {
 protected:
  static constexpr auto half_life = 10s;

  static activation_history::limits bounds() { return {half_life, 4, 1000, 3}; }

  static std::string window(std::chrono::milliseconds duration,
                            std::vector<std::vector<std::uint64_t>> rows) {
    return encode({static_cast<std::uint64_t>(duration.count()), {1, 1, std::move(rows)}});
  }

  static activation_report report(std::uint64_t worker, std::uint64_t first,
                                  std::vector<std::string> windows) {
    return {{worker}, "model", {2, 0, 1}, first, std::move(windows)};
  }

  /// One window of one row for expert 0 of layer 0, which covers the 10 s before it.
  static activation_report one_row(std::uint64_t worker, std::uint64_t first) {
    return report(worker, first, {window(10s, {{1, 0}, {}, {0}})});
  }

  bool count(const activation_report& what) { return history.count(what, now); }

  matrix decayed() const { return history.snapshot(0).decayed; }

  activation_history history{bounds()};
  activation_history::time_point now{1000s};
};

TEST_F(activation_history_test, sums_windows_and_keeps_them) {
  EXPECT_TRUE(history.is_empty());
  const auto first = window(5s, {{3, 1}, {}, {4}});
  const auto other = window(5s, {{0, 2}, {}, {2}});
  EXPECT_TRUE(count(report(1, 1, {first})));
  EXPECT_TRUE(count(report(2, 1, {other})));
  const history_snapshot wanted{"model",
                                {2, 0, 1},
                                10'000,
                                5'000,
                                2,
                                12,
                                {{3, 3}, {}, {6}},
                                {{{1}, 1, 5'000, first}, {{2}, 1, 5'000, other}}};
  EXPECT_EQ(history.snapshot(9), wanted);
  EXPECT_EQ(history.snapshot(1).windows, (std::vector<history_window>{{{2}, 1, 5'000, other}}))
      << "the most recent one";
}

TEST_F(activation_history_test, halves_in_a_half_life_of_work) {
  count(report(1, 1, {window(10s, {{8, 0}, {}, {4}})}));
  now += 10s;
  count(one_row(1, 2));
  EXPECT_EQ(decayed(), (matrix{{5, 0}, {}, {2}}));
  now += 10s;
  count(one_row(1, 3));
  EXPECT_EQ(decayed(), (matrix{{3.5, 0}, {}, {1}}));
  EXPECT_EQ(history.snapshot(0).age_ms, 30'000U);
}

TEST_F(activation_history_test, does_not_age_while_nothing_runs) {
  count(report(1, 1, {window(10s, {{8, 0}, {}, {4}})}));
  now += 1000h;
  count(one_row(1, 2)); // covers 10 s
  EXPECT_EQ(decayed(), (matrix{{5, 0}, {}, {2}}));
}

TEST_F(activation_history_test, ages_once_for_workers_that_report_side_by_side) {
  count(report(1, 1, {window(10s, {{8, 0}, {}, {4}})}));
  count(one_row(2, 1));
  EXPECT_EQ(decayed(), (matrix{{9, 0}, {}, {4}})) << "they ended together";
  now += 10s;
  count(one_row(1, 2));
  count(one_row(2, 2));
  EXPECT_EQ(decayed(), (matrix{{6.5, 0}, {}, {2}}));
  EXPECT_EQ(history.snapshot(0).age_ms, 20'000U);
}

TEST_F(activation_history_test, windows_of_one_report_age_as_if_they_had_come_one_by_one) {
  const std::vector windows{window(10s, {{1, 0}, {}, {0}}), window(10s, {{0, 5}, {}, {0}}),
                            window(10s, {{0, 0}, {}, {9}})};
  for (std::uint64_t i = 0; i < 3; ++i, now += 10s)
    count(report(1, 1 + i, {windows[i]}));
  activation_history late{bounds()};
  late.count(report(1, 1, windows), now);
  EXPECT_EQ(late.snapshot(9), history.snapshot(9));
  EXPECT_EQ(decayed(), (matrix{{0.25, 2.5}, {}, {9}}));
}

TEST_F(activation_history_test, counts_each_window_once) {
  const auto one = window(0s, {{1, 0}, {}, {0}});
  const auto two = window(0s, {{0, 10}, {}, {0}});
  const auto three = window(0s, {{0, 0}, {}, {100}});
  EXPECT_TRUE(count(report(1, 1, {one})));
  EXPECT_FALSE(count(report(1, 1, {one}))) << "the receipt was lost";
  EXPECT_TRUE(count(report(1, 1, {one, two}))) << "half of it is new";
  EXPECT_TRUE(count(report(1, 3, {three})));
  EXPECT_FALSE(count(report(1, 1, {one, two}))) << "it comes late";
  EXPECT_EQ(decayed(), (matrix{{1, 10}, {}, {100}}));
  EXPECT_EQ(history.counted({1}), 3U);
  EXPECT_TRUE(count(report(2, 1, {one}))) << "another incarnation begins again at 1";
  EXPECT_EQ(decayed(), (matrix{{2, 10}, {}, {100}}));
  EXPECT_EQ(history.tokens(), 4U);
}

TEST_F(activation_history_test, keeps_no_more_windows_and_bytes_than_it_may) {
  for (std::uint64_t i = 1; i <= 6; ++i)
    count(one_row(1, i));
  auto kept = history.snapshot(9).windows;
  ASSERT_EQ(kept.size(), 4U);
  EXPECT_EQ(kept.front().sequence, 3U);
  EXPECT_EQ(kept.back().sequence, 6U);
  activation_history tight{{half_life, 4, 2 * one_row(1, 1).windows[0].size(), 3}};
  for (std::uint64_t i = 1; i <= 6; ++i)
    tight.count(one_row(1, i), now);
  kept = tight.snapshot(9).windows;
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept.front().sequence, 5U);
  EXPECT_EQ(tight.tokens(), 6U) << "what is not kept is counted";
}

TEST_F(activation_history_test, forgets_workers_that_have_long_been_silent) {
  for (const std::uint64_t worker : {1U, 2U, 3U})
    count(one_row(worker, 1));
  count(one_row(1, 2));
  count(one_row(4, 1)); // one too many
  EXPECT_EQ(history.counted({1}), 2U);
  EXPECT_EQ(history.counted({2}), 0U);
  EXPECT_EQ(history.counted({3}), 1U);
}

TEST_F(activation_history_test, refuses_what_is_not_of_its_model_or_cannot_be_read) {
  count(one_row(1, 1));
  const auto before = history.stored();
  auto other = one_row(1, 2);
  other.fingerprint = "another";
  EXPECT_THROW(count(other), std::runtime_error);
  other = one_row(1, 2);
  other.layer_experts = {2, 0, 2};
  EXPECT_THROW(count(other), std::runtime_error);
  EXPECT_THROW(count(report(1, 2, {one_row(1, 2).windows[0], "\x01"})), std::runtime_error);
  EXPECT_THROW(count(report(1, 2, std::vector(17, one_row(1, 2).windows[0]))), std::runtime_error);
  EXPECT_EQ(history.stored(), before) << "nothing of them is counted";
  activation_history fresh{bounds()};
  EXPECT_THROW(fresh.count({{1}, "", {2}, 1, {}}, now), std::runtime_error);
  EXPECT_THROW(fresh.count({{1}, "model", {}, 1, {}}, now), std::runtime_error);
  EXPECT_TRUE(fresh.is_empty());
}

TEST_F(activation_history_test, goes_on_with_what_was_stored) {
  count(report(1, 1, {window(10s, {{8, 0}, {}, {4}})}));
  activation_history restarted{bounds(), history.stored()};
  EXPECT_EQ(restarted.stored(), history.stored());
  EXPECT_FALSE(restarted.count(report(1, 1, {window(10s, {{8, 0}, {}, {4}})}), now));
  now = activation_history::time_point{1s}; // another process, another clock
  EXPECT_TRUE(restarted.count(one_row(1, 2), now));
  EXPECT_EQ(restarted.snapshot(0).decayed, (matrix{{5, 0}, {}, {2}}));
  EXPECT_EQ(restarted.snapshot(0).age_ms, 20'000U);
}

TEST_F(activation_history_test, does_not_begin_with_what_makes_no_sense) {
  count(one_row(1, 1));
  const auto sound = history.stored();
  const auto expect_flaw = [&](const std::string& what, auto change) {
    auto stored = sound;
    change(stored.history);
    EXPECT_NE(flaw_of(stored.history).find(what), std::string::npos) << flaw_of(stored.history);
    EXPECT_THROW((activation_history{bounds(), stored}), std::runtime_error);
  };
  EXPECT_EQ(flaw_of(sound.history), "");
  expect_flaw("names no model", [](auto& x) { x.fingerprint.clear(); });
  expect_flaw("out of range", [](auto& x) { x.layer_experts.clear(); });
  expect_flaw("3 layers", [](auto& x) { x.decayed.pop_back(); });
  expect_flaw("layer 2 has decayed rows for 2 experts", [](auto& x) { x.decayed[2].push_back(1); });
  expect_flaw("layer 0 has decayed rows that are no amount", [](auto& x) { x.decayed[0][1] = -1; });
  expect_flaw("no amount", [](auto& x) { x.decayed[0][0] = 0.0 / 0.0; });
  expect_flaw("window 0: an activation window ends too early",
              [](auto& x) { x.windows[0].encoded.pop_back(); });
}

} // namespace
} // namespace troupe
