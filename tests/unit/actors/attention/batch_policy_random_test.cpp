#include "actors/attention/batch_policy.hpp"
#include "tests/unit/actors/attention/small_batches.hpp"

#include <array>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

namespace troupe {
namespace {

// Random load on a small cache with up to three plans in flight: everything ends, every position is computed
// in order, limits hold, blocks suffice, hold what their sequences see, and none leaks.
class random_load : public testing::TestWithParam<std::vector<kv_reach>> {};

TEST_P(random_load, everything_ends) {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(seed);
    const auto reaches = GetParam();
    const auto num_tables = static_cast<std::uint32_t>(reaches.size());
    std::mt19937 random{seed};
    const auto draw = [&](std::uint32_t low, std::uint32_t high) {
      return std::uniform_int_distribution{low, high}(random);
    };
    auto limits = test::small();
    limits.max_waiting = 1000;
    limits.num_blocks = 16 * num_tables;
    limits.reaches = reaches;
    limits.retains = seed % 2 == 0;
    batch_policy policy{limits};
    const kv_needs needs(reaches, 4, 8);
    // Of each block four tokens: the table, who has written it (a group in its prompt) and the position.
    using token = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;
    std::map<std::uint32_t, std::array<token, 4>> contents;

    struct progress {
      std::uint32_t known = 0;
      std::uint32_t computed = 0;
      std::uint32_t until = 0;
      std::uint64_t group = 0;
      std::uint32_t prompt = 0;
      std::shared_ptr<prefix_chain> names{};
      std::vector<std::int32_t> tokens{};

      /// Makes the tokens known, and names them: those of the prompt are the group's, the others its own.
      void learn(batch_policy::key name) {
        while (tokens.size() < known)
          tokens.push_back(static_cast<std::int32_t>(tokens.size() < prompt ? group : 1000 + name));
        names->extend(tokens);
      }
    };

    std::map<batch_policy::key, progress> live;
    batch_policy::key last = 0;
    std::size_t ended = 0;
    std::size_t preemptions = 0;
    std::size_t shared = 0;
    std::uint32_t prompt = 0;
    std::vector<batch_policy::plan> flying;
    for (int round = 0; ended < 300; ++round) {
      ASSERT_LT(round, 100'000) << "live lock";
      while (last < 300 && draw(0, 2) == 0) {
        // Groups of three with a common prompt, and more known tokens.
        if (last % 3 == 0)
          prompt = draw(1, 30);
        const auto has_more = draw(0, 1);
        const auto known = prompt + has_more * draw(0, 10);
        ++last;
        const std::uint64_t group = (last + 2) / 3;
        auto& added = live[last];
        added = {known, 0, known + draw(1, 23), group, prompt, std::make_shared<prefix_chain>("", 4)};
        added.learn(last);
        ASSERT_EQ(policy.add(last, known, static_cast<std::int32_t>(draw(0, 1)), added.names), ec::none);
      }
      if (flying.size() < 3) {
        auto plan = policy.next(draw(1, 4));
        for (const auto& [name, num_computed] : plan.preempted) {
          EXPECT_EQ(num_computed, live[name].computed);
          live[name].computed = 0;
          ++preemptions;
        }
        std::uint32_t rows = 0;
        for (const auto& slice : plan.slices) {
          auto& sequence = live.at(slice.sequence);
          if (sequence.computed == 0 && slice.first_position > 0) {
            ASSERT_EQ(slice.first_position % 4, 0U);
            sequence.computed = slice.first_position;
            ++shared;
          }
          ASSERT_EQ(slice.first_position, sequence.computed);
          for (std::uint32_t t = 0; t < num_tables; ++t) {
            const auto& blocks = test::blocks(policy, slice.sequence, t);
            const auto first = policy.first_block(slice.sequence, t);
            ASSERT_LE(blocks.size() - first, needs.most_of(t, sequence.known));
            ASSERT_GE(blocks.size() * 4, slice.first_position + slice.num_rows);
            // Written blocks are not shared.
            for (auto block = slice.first_position / 4; block < blocks.size(); ++block)
              ASSERT_EQ(policy.store().references(blocks[block]), 1U);
            const auto token_at = [&](std::uint32_t position) {
              const bool is_common = position < sequence.prompt;
              return token{t, is_common ? sequence.group : 1000 + slice.sequence, position};
            };
            const auto [window, chunk] = reaches[t];
            auto seen = chunk != 0 ? slice.first_position / chunk * chunk : 0;
            if (window != 0 && slice.first_position >= window)
              seen = slice.first_position + 1 - window;
            ASSERT_LE(first * 4, seen);
            for (auto position = seen; position < slice.first_position; ++position)
              ASSERT_EQ(contents[blocks[position / 4]][position % 4], token_at(position))
                  << "table " << t << ", position " << position;
            for (std::uint32_t i = 0; i < slice.num_rows; ++i) {
              const auto position = slice.first_position + i;
              contents[blocks[position / 4]][position % 4] = token_at(position);
            }
          }
          ASSERT_EQ(slice.last, slice.first_position + slice.num_rows == sequence.known);
          rows += slice.num_rows;
        }
        ASSERT_LE(rows, 8U);
        ASSERT_LE(policy.running(), 4U);
        if (!plan.slices.empty())
          flying.push_back(std::move(plan));
        else
          ASSERT_TRUE(!flying.empty() || live.empty()) << "nothing runs and nothing can start";
      }
      if (!flying.empty() && draw(0, 1) == 0) {
        const auto which = draw(0, static_cast<std::uint32_t>(flying.size() - 1));
        const auto plan = std::move(flying[which]);
        flying.erase(flying.begin() + which);
        for (const auto& slice : plan.slices) {
          auto& sequence = live.at(slice.sequence);
          sequence.computed += slice.num_rows;
          policy.complete(slice.sequence, slice.last);
          sequence.known += slice.last ? 1 : 0;
          sequence.learn(slice.sequence);
          if (slice.last && sequence.known == sequence.until) {
            policy.remove(slice.sequence);
            live.erase(slice.sequence);
            ++ended;
          }
        }
      }
    }
    EXPECT_EQ(policy.store().num_held(), 0U);
    EXPECT_GT(preemptions, 10U);
    EXPECT_GT(shared, 20U);
  }
}

INSTANTIATE_TEST_SUITE_P(tables, random_load,
                         testing::Values(std::vector<kv_reach>{{}}, std::vector<kv_reach>{{.window = 6}},
                                         std::vector<kv_reach>{{}, {.window = 6}},
                                         std::vector<kv_reach>{{.chunk = 5}, {}, {.chunk = 5}}));

} // namespace
} // namespace troupe
