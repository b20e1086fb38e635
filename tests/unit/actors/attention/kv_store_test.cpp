#include "actors/attention/kv_store.hpp"

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace troupe {
namespace {

kv_store::content_name named(std::uint64_t number) {
  return {{number, number}, 4, 0};
}

void release(kv_store& store, block_table& table) {
  store.release(table, 0, static_cast<std::uint32_t>(table.size()));
  table.clear();
}

TEST(kv_store, gives_all_or_nothing) {
  kv_store store{4};
  block_table table;
  EXPECT_TRUE(store.grow(table, 3));
  EXPECT_FALSE(store.grow(table, 2));
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(store.num_held(), 3U);
  EXPECT_TRUE(store.grow(table, 1));
  EXPECT_EQ(std::set<std::uint32_t>(table.begin(), table.end()).size(), 4U) << "no block twice";
  release(store, table);
  EXPECT_EQ(store.num_available(), 4U);
}

TEST(kv_store, a_shared_block_is_copied_before_it_is_written) {
  kv_store store{3};
  block_table first;
  ASSERT_TRUE(store.grow(first, 2));
  auto second = store.fork(first);
  EXPECT_EQ(second, first);
  EXPECT_EQ(store.num_held(), 2U);
  std::optional<block_copy> copy;
  ASSERT_TRUE(store.make_writable(second, 1, copy));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, first[1]);
  EXPECT_EQ(copy->to, second[1]);
  EXPECT_NE(first[1], second[1]);
  ASSERT_TRUE(store.make_writable(first, 1, copy));
  EXPECT_FALSE(copy) << "nobody shares it any more";
  EXPECT_FALSE(store.make_writable(first, 0, copy)) << "shared, and no block is available";
  EXPECT_EQ(first[0], second[0]);
  release(store, second);
  ASSERT_TRUE(store.make_writable(first, 0, copy));
  EXPECT_FALSE(copy);
}

TEST(kv_store, named_blocks_are_found_until_they_are_evicted_or_written_to) {
  kv_store store{3};
  block_table table;
  ASSERT_TRUE(store.grow(table, 3));
  for (const std::uint64_t number : {0U, 1U, 2U})
    store.name(table[number], named(number));
  const auto held = table;
  release(store, table);
  EXPECT_EQ(store.num_retained(), 3U);
  EXPECT_EQ(store.num_held(), 0U);
  EXPECT_EQ(store.find(named(1)), held[1]);
  store.hold(table, held[0]);
  EXPECT_EQ(store.num_held(), 1U);
  ASSERT_TRUE(store.grow(table, 1));
  EXPECT_EQ(table[1], held[2]) << "the end of a table goes before its beginning";
  EXPECT_FALSE(store.find(named(2)));
  EXPECT_EQ(store.find(named(1)), held[1]);
  std::optional<block_copy> copy;
  ASSERT_TRUE(store.make_writable(table, 0, copy));
  EXPECT_FALSE(store.find(named(0)));
}

TEST(kv_store, the_first_block_with_a_content_keeps_its_name) {
  kv_store store{2};
  block_table one;
  block_table other;
  ASSERT_TRUE(store.grow(one, 1) && store.grow(other, 1));
  store.name(one[0], named(7));
  store.name(other[0], named(7));
  EXPECT_EQ(store.find(named(7)), one[0]);
  EXPECT_FALSE(store.find({{7, 7}, 1})) << "another table holds other keys";
  release(store, other);
  EXPECT_EQ(store.num_retained(), 0U);
}

TEST(kv_store, nothing_is_retained_where_that_is_off) {
  kv_store store{2, false};
  block_table table;
  ASSERT_TRUE(store.grow(table, 1));
  store.name(table[0], named(7));
  EXPECT_EQ(store.find(named(7)), table[0]);
  release(store, table);
  EXPECT_EQ(store.num_retained(), 0U);
  EXPECT_FALSE(store.find(named(7)));
}

TEST(kv_store_death, releasing_what_nobody_holds_ends_the_process) {
  kv_store store{2};
  block_table table{1};
  EXPECT_DEATH(release(store, table), "block 1 is released and nobody holds it");
}

/// What a store has to be like: contents of blocks, and the retained ones in the order of their release.
struct model {
  std::map<std::uint32_t, std::uint64_t> memory;
  std::map<std::uint32_t, std::uint64_t> names;
  std::list<std::uint32_t> retained;
  std::map<std::uint32_t, std::uint32_t> references;

  void take(std::uint32_t block) {
    if (std::erase(retained, block) > 0)
      names.erase(block);
    references[block] = 1;
  }

  void give_back(std::uint32_t block) {
    if (--references.at(block) > 0)
      return;
    references.erase(block);
    if (names.contains(block))
      retained.push_back(block);
  }
};

// Tables grow, fork, are written to, named, found again and die at random. Every entry remembers its expected
// content: a name leads to its content, and no write changes the content of another table.
TEST(kv_store, is_like_its_model) {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>{0, n - 1}(random);
    };
    constexpr std::uint32_t num_blocks = 24;
    kv_store store{num_blocks};
    model like;

    struct sequence {
      block_table blocks;
      std::vector<std::uint64_t> wanted;
    };

    std::vector<sequence> sequences;
    std::uint64_t content = 0;
    std::size_t found = 0;
    for (int step = 0; step < 500'000; ++step) {
      const auto action = below(8);
      if (action == 0 || sequences.empty()) {
        sequence added;
        const auto count = static_cast<std::uint32_t>(below(5));
        const auto free = num_blocks - like.references.size() - like.retained.size();
        const std::vector<std::uint32_t> oldest(like.retained.begin(), like.retained.end());
        ASSERT_EQ(store.grow(added.blocks, count), count <= free + oldest.size());
        for (std::size_t i = 0; i < added.blocks.size(); ++i) {
          const auto block = added.blocks[i];
          if (i >= free)
            ASSERT_EQ(block, oldest[i - free]) << "the one that was given back first";
          else
            ASSERT_EQ(std::count(oldest.begin(), oldest.end(), block), 0) << "evicted beside a free one";
          like.take(block);
          like.memory[block] = ++content;
          added.wanted.push_back(content);
        }
        sequences.push_back(std::move(added));
      } else if (action == 1) {
        const auto& parent = sequences[below(sequences.size())];
        for (const auto block : parent.blocks)
          ++like.references[block];
        sequences.push_back({store.fork(parent.blocks), parent.wanted});
      } else if (action <= 3) {
        const auto victim = below(sequences.size());
        auto& blocks = sequences[victim].blocks;
        for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
          like.give_back(*block);
        release(store, blocks);
        sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(victim));
      } else if (action == 4) {
        const auto& owner = sequences[below(sequences.size())];
        for (const auto block : owner.blocks) {
          store.name(block, named(like.memory[block]));
          like.names.emplace(block, like.memory[block]);
        }
      } else if (action == 5) {
        const auto wanted = content - below(std::min<std::size_t>(content, 40));
        const auto known = std::find_if(like.names.begin(), like.names.end(),
                                        [&](const auto& entry) { return entry.second == wanted; });
        const auto block = store.find(named(wanted));
        ASSERT_EQ(block.has_value(), known != like.names.end());
        if (!block)
          continue;
        ++found;
        ASSERT_EQ(*block, known->first);
        auto& holder = sequences[below(sequences.size())];
        std::erase(like.retained, *block);
        ++like.references[*block];
        store.hold(holder.blocks, *block);
        holder.wanted.push_back(wanted);
      } else {
        auto& writer = sequences[below(sequences.size())];
        if (writer.blocks.empty())
          continue;
        const auto index = below(writer.blocks.size());
        const auto before = writer.blocks;
        std::optional<block_copy> copy;
        if (!store.make_writable(writer.blocks, static_cast<std::uint32_t>(index), copy)) {
          ASSERT_EQ(store.num_available(), 0U);
          ASSERT_EQ(writer.blocks, before);
          continue;
        }
        if (copy) {
          like.take(copy->to);
          like.memory[copy->to] = like.memory[copy->from];
          like.give_back(copy->from);
        } else {
          like.names.erase(before[index]);
        }
        like.memory[writer.blocks[index]] = ++content;
        writer.wanted[index] = content;
      }
      ASSERT_EQ(store.num_retained(), like.retained.size());
      ASSERT_EQ(store.num_held(), like.references.size());
      if (step % 64 != 0)
        continue;
      for (const auto& [block, count] : like.references)
        ASSERT_EQ(store.references(block), count);
      for (const auto& owner : sequences)
        for (std::size_t i = 0; i < owner.blocks.size(); ++i)
          ASSERT_EQ(like.memory[owner.blocks[i]], owner.wanted[i]);
    }
    EXPECT_GT(found, 1000U);
  }
}

} // namespace
} // namespace troupe
