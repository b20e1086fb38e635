// The page /cluster/placement as shown by `troupe placement`.
#include "services/troupe/placement_table.hpp"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace troupe {
namespace {

const std::string score = R"({"step_us": 1, "busiest_us": 1, "messages": 1, "max_share": 1})";

const std::string quiet = R"({"planner": "on", "change": null, "last": null, "pins": [], "replicas": [],
    "drained": [], "imbalance": null, "wanted_workers": null})";

std::string busy() {
  return R"({"planner": "paused",
    "change": {"id": 9, "reason": "drain", "moves": 8, "bytes": 80, "moves_done": 1, "moves_given_up": 2,
               "moves_left": 5, "elapsed_ms": 1530, "before": )"
         + score + R"(, "after": )" + score + R"(},
    "last": {"id": 8, "reason": "a worker has joined", "moves": 8, "bytes": 80, "moves_done": 8,
             "moves_given_up": 0, "moves_left": 0, "elapsed_ms": 60000, "before": )"
         + score + R"(, "after": )" + score + R"(},
    "pins": [{"layer": 3, "expert": 15, "hosts": ["expert-0", "expert-2"]}],
    "replicas": [{"layer": 11, "expert": 2, "replicas": 2}],
    "drained": ["expert-1", "expert-3"], "imbalance": 1.071, "wanted_workers": 3})";
}

TEST(placement_table, shows_a_planner_that_has_nothing_to_do) {
  EXPECT_EQ(placement_table(quiet),
            "planner: on\n"
            "change under way: none\n"
            "last change: none\n"
            "imbalance: not known yet (time of the busiest workers over that of an even load)\n"
            "expert workers wanted: not known yet\n"
            "drained: none\n"
            "pins: none\n");
  EXPECT_EQ(change_under_way(quiet), "");
  EXPECT_EQ(moves_given_up(quiet), 0U);
}

TEST(placement_table, shows_progress_and_orders) {
  EXPECT_EQ(placement_table(busy()),
            "planner: paused\n"
            "change under way: 9 (drain): 1 expert done, 5 left, 2 given up, 1.5 s\n"
            "last change: 8 (a worker has joined): 8 experts done, 0 left, 0 given up, 60.0 s\n"
            "imbalance: 1.07 (time of the busiest workers over that of an even load)\n"
            "expert workers wanted: 3\n"
            "drained: expert-1, expert-3\n"
            "\n"
            "LAYER  EXPERT  ORDER\n"
            "    3      15  pinned to expert-0, expert-2\n"
            "   11       2  at least 2 hosts\n");
  EXPECT_EQ(change_under_way(busy()), "9 (drain): 1 expert done, 5 left, 2 given up, 1.5 s");
}

TEST(placement_table, names_the_workers_that_load) {
  auto page = busy();
  const std::string elapsed = R"("elapsed_ms": 1530)";
  page.replace(page.find(elapsed), elapsed.size(), elapsed + R"(, "in_flight": [
      {"layer": 0, "expert": 1, "from": ["expert-0"], "to": ["expert-0", "expert-2"]},
      {"layer": 0, "expert": 2, "from": ["expert-1"], "to": ["expert-2"]},
      {"layer": 0, "expert": 3, "from": ["expert-1", "expert-3"], "to": ["expert-3"]},
      {"layer": 1, "expert": 2, "from": ["expert-1"], "to": ["expert-4"]}])");
  EXPECT_THAT(placement_table(page), testing::HasSubstr("\nloading: expert-2, expert-4\nlast change: "));
  EXPECT_THAT(placement_table(busy()), testing::Not(testing::HasSubstr("loading:"))) << "an earlier release";
}

TEST(moves_given_up, are_those_of_the_last_change) {
  std::string failed = busy();
  const std::string none = R"("moves_given_up": 0)";
  failed.replace(failed.find(none), none.size(), R"("moves_given_up": 3)");
  EXPECT_EQ(moves_given_up(failed), 3U);
  EXPECT_THROW(moves_given_up("{}"), std::runtime_error);
}

TEST(change_table, shows_what_moves_and_what_it_is_for) {
  const std::string rest = R"("reason": "move", "moves": 2, "bytes": 3145728,
      "before": {"step_us": 1234.567, "busiest_us": 1000, "messages": 3.5, "max_share": 0.75},
      "after": {"step_us": 1200, "busiest_us": 900.04, "messages": 4, "max_share": 0.5},
      "experts": [{"layer": 3, "expert": 5, "from": ["expert-0"], "to": ["expert-0", "expert-1"]},
                  {"layer": 12, "expert": 105, "from": [], "to": ["expert-2"]}]})";
  const std::string body =
      "predicted for a step: 1234.6 -> 1200.0 us, of which the busiest workers 1000.0 -> 900.0 us; "
      "3.5 -> 4.0 messages; share of a layer's busiest worker 0.750 -> 0.500\n"
      "\n"
      "LAYER  EXPERT  FROM      TO\n"
      "    3       5  expert-0  expert-0, expert-1\n"
      "   12     105  none      expert-2\n";
  EXPECT_EQ(change_table(R"({"change": 4, "dry_run": false, )" + rest),
            "change 4 (move): 2 experts change hosts, 2 to be loaded, 3.0 MiB\n" + body
                + "'troupe placement wait' waits until it is over\n");
  EXPECT_EQ(change_table(R"({"change": 0, "dry_run": true, )" + rest),
            "dry run (move): 2 experts would change hosts, 2 to be loaded, 3.0 MiB\n" + body);
}

TEST(change_table, says_that_nothing_moves) {
  const auto answer = [](const std::string& dry_run) {
    return R"({"change": 0, "dry_run": )" + dry_run + R"(, "reason": "", "moves": 0, "bytes": 0, "before": )"
           + score + R"(, "after": )" + score + R"(, "experts": []})";
  };
  EXPECT_EQ(change_table(answer("false")), "done; no expert changes its hosts\n");
  EXPECT_EQ(change_table(answer("true")), "no expert would change its hosts\n");
}

TEST(change_table, cuts_long_lists_and_says_so) {
  std::string experts;
  for (int i = 0; i < 42; ++i) {
    experts += (i == 0 ? "" : ",") + std::string(R"({"layer": 0, "expert": )") + std::to_string(i)
               + R"(, "from": ["a"], "to": ["b"]})";
  }
  const auto text = change_table(
      R"({"change": 1, "dry_run": true, "reason": "imbalance", "moves": 42, "bytes": 42, "before": )" + score
      + R"(, "after": )" + score + R"(, "experts": [)" + experts + "]}");
  EXPECT_THAT(text, testing::HasSubstr("    0      39  a     b\nand 2 more; --json shows all\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("    0      40 ")));
}

TEST(placement_table, refuses_what_is_no_such_page) {
  for (const char* wrong :
       {"", "[]", "{}", "<html>", R"({"change": null})", R"({"planner": 3, "change": null})"}) {
    EXPECT_THROW(placement_table(wrong), std::runtime_error) << wrong;
    EXPECT_THROW(change_table(wrong), std::runtime_error) << wrong;
  }
  EXPECT_THROW(change_under_way("{}"), std::runtime_error);
}

} // namespace
} // namespace troupe
