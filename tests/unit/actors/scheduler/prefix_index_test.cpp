#include "actors/scheduler/prefix_index.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {
namespace {

using match = prefix_index::match;
using matches = std::map<worker_id, match>;

const std::vector<prefix_landmark> prompt{{11, 64}, {12, 80}, {13, 96}};

TEST(prefix_index, finds_the_longest_beginning_of_each_worker) {
  prefix_index index;
  EXPECT_EQ(index.find(prompt), matches{});
  index.report({1}, {11, 99});
  index.report({2}, {12, 11, 13});
  index.report({3}, {99});
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {64, 0}}, {{2}, {96, 0}}}));
}

TEST(prefix_index, a_report_replaces_the_one_before) {
  prefix_index index;
  index.report({1}, {11, 12});
  index.report({1}, {11, 11});
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {64, 0}}}));
  index.report({1}, {});
  EXPECT_EQ(index.find(prompt), matches{});
}

TEST(prefix_index, a_request_with_a_place_counts_before_and_after_the_worker_reports) {
  prefix_index index;
  index.hold({5}, {1}, {{11, 64}, {12, 80}});
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {80, 80}}}));
  index.report({1}, {11}); // it has computed so much
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {80, 80}}}));
  index.release({5});
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {80, 0}}})) << "as it will report";
  index.report({1}, {11});
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {64, 0}}}));
}

TEST(prefix_index, two_requests_with_one_beginning_hold_it_twice) {
  prefix_index index;
  index.hold({5}, {1}, prompt);
  index.hold({6}, {1}, prompt);
  index.release({5});
  EXPECT_EQ(index.find(prompt), (matches{{{1}, {96, 96}}}));
}

TEST(prefix_index, a_worker_that_is_gone_knows_nothing) {
  prefix_index index;
  index.report({1}, {11});
  index.hold({5}, {1}, prompt);
  index.hold({6}, {2}, prompt);
  index.remove({1});
  EXPECT_EQ(index.find(prompt), (matches{{{2}, {96, 96}}}));
  index.release({5}); // it ends elsewhere
  EXPECT_EQ(index.find(prompt), (matches{{{2}, {96, 96}}}));
}

TEST(prefix_index, property_is_what_a_plain_model_says) {
  dice random{7};
  prefix_index index;
  std::map<std::uint64_t, std::set<std::uint64_t>> reported;                       // worker → hashes
  std::map<std::uint64_t, std::pair<std::uint64_t, std::set<std::uint64_t>>> held; // request → worker, hashes
  const auto draw = [&] {
    std::vector<prefix_landmark> result;
    for (std::uint32_t i = 0; i < random.below(6); ++i)
      result.push_back({random.below(12), 16 * (i + 1)});
    return result;
  };
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t worker = random.below(4);
    const std::uint64_t request = random.below(8);
    switch (random.below(5)) {
    case 0: {
      std::vector<std::uint64_t> hashes;
      for (const auto& landmark : draw())
        hashes.push_back(landmark.hash);
      reported[worker] = {hashes.begin(), hashes.end()};
      index.report({worker}, hashes);
      break;
    }
    case 1:
    case 2:
      if (const auto landmarks = draw(); !held.contains(request) && !landmarks.empty()) {
        held[request].first = worker;
        for (const auto& landmark : landmarks)
          held[request].second.insert(landmark.hash);
        index.hold({request}, {worker}, landmarks);
      }
      break;
    case 3:
      if (const auto found = held.find(request); found != held.end()) {
        reported[found->second.first].merge(found->second.second);
        held.erase(found);
      }
      index.release({request});
      break;
    default:
      if (random.below(4) == 0) {
        reported.erase(worker);
        std::erase_if(held, [&](const auto& entry) { return entry.second.first == worker; });
        index.remove({worker});
      }
    }
    const auto question = draw();
    matches expected;
    for (const auto& landmark : question)
      for (std::uint64_t at = 0; at < 4; ++at) {
        const auto holds = std::any_of(held.begin(), held.end(), [&](const auto& entry) {
          return entry.second.first == at && entry.second.second.contains(landmark.hash);
        });
        if (holds)
          expected[{at}].shared = landmark.num_tokens;
        if (holds || (reported.contains(at) && reported[at].contains(landmark.hash)))
          expected[{at}].known = landmark.num_tokens;
      }
    ASSERT_EQ(index.find(question), expected);
  }
}

} // namespace
} // namespace troupe
