#include "actors/attention/kv_block_pool.hpp"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace troupe {
namespace {

TEST(kv_block_pool, gives_all_or_nothing) {
  kv_block_pool pool{4};
  block_table table;
  EXPECT_TRUE(pool.grow(table, 3));
  EXPECT_FALSE(pool.grow(table, 2));
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(pool.num_used(), 3U);
  EXPECT_TRUE(pool.grow(table, 1));
  EXPECT_EQ(std::set<std::uint32_t>(table.begin(), table.end()).size(), 4U) << "no block twice";
  pool.release(table);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(pool.num_free(), 4U);
}

TEST(kv_block_pool, a_shared_block_is_copied_before_it_is_written) {
  kv_block_pool pool{3};
  block_table first;
  ASSERT_TRUE(pool.grow(first, 2));
  auto second = pool.fork(first);
  EXPECT_EQ(second, first);
  EXPECT_EQ(pool.num_used(), 2U);
  std::optional<block_copy> copy;
  ASSERT_TRUE(pool.make_writable(second, 1, copy));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, first[1]);
  EXPECT_EQ(copy->to, second[1]);
  EXPECT_NE(first[1], second[1]);
  ASSERT_TRUE(pool.make_writable(first, 1, copy));
  EXPECT_FALSE(copy) << "nobody shares it any more";
  EXPECT_FALSE(pool.make_writable(first, 0, copy)) << "shared, and no block is free";
  EXPECT_EQ(first[0], second[0]);
  pool.release(second);
  ASSERT_TRUE(pool.make_writable(first, 0, copy));
  EXPECT_FALSE(copy);
}

TEST(kv_block_pool, content_is_named_until_it_changes) {
  kv_block_pool pool{2};
  block_table table;
  ASSERT_TRUE(pool.grow(table, 1));
  EXPECT_EQ(pool.content_hash(table[0]), 0U);
  pool.name_content(table[0], 42);
  auto fork = pool.fork(table);
  EXPECT_EQ(pool.content_hash(fork[0]), 42U);
  std::optional<block_copy> copy;
  ASSERT_TRUE(pool.make_writable(fork, 0, copy));
  EXPECT_EQ(pool.content_hash(fork[0]), 0U);
  EXPECT_EQ(pool.content_hash(table[0]), 42U);
  const auto block = table[0];
  pool.release(table);
  ASSERT_TRUE(pool.grow(table, 1));
  EXPECT_EQ(table[0], block);
  EXPECT_EQ(pool.content_hash(block), 0U) << "a fresh block carries no old name";
}

TEST(kv_block_pool_death, releasing_what_nobody_holds_ends_the_process) {
  kv_block_pool pool{2};
  block_table table{1};
  EXPECT_DEATH(pool.release(table), "block 1 is released and nobody holds it");
}

// Tables grow, fork, are written to and die at random. Every entry remembers its expected content; writing to
// a block must not change the content of another table.
TEST(kv_block_pool, never_shares_wrongly_and_never_leaks) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::size_t n) {
      return std::uniform_int_distribution<std::size_t>{0, n - 1}(random);
    };
    kv_block_pool pool{24};
    std::map<std::uint32_t, std::uint64_t> memory; // content of each block

    struct sequence {
      block_table blocks;
      std::vector<std::uint64_t> wanted;
    };

    std::vector<sequence> sequences;
    std::uint64_t content = 0;
    for (int step = 0; step < 20'000; ++step) {
      const auto action = below(5);
      if (action == 0 || sequences.empty()) {
        sequence added;
        const auto count = static_cast<std::uint32_t>(below(5));
        const auto enough = count <= pool.num_free();
        ASSERT_EQ(pool.grow(added.blocks, count), enough);
        for (const auto block : added.blocks) {
          memory[block] = ++content;
          added.wanted.push_back(content);
        }
        sequences.push_back(std::move(added));
      } else if (action == 1) {
        const auto& parent = sequences[below(sequences.size())];
        sequences.push_back({pool.fork(parent.blocks), parent.wanted});
      } else if (action == 2) {
        const auto victim = below(sequences.size());
        pool.release(sequences[victim].blocks);
        sequences.erase(sequences.begin() + static_cast<std::ptrdiff_t>(victim));
      } else {
        auto& writer = sequences[below(sequences.size())];
        if (writer.blocks.empty())
          continue;
        const auto index = below(writer.blocks.size());
        const auto before = writer.blocks;
        std::optional<block_copy> copy;
        if (!pool.make_writable(writer.blocks, static_cast<std::uint32_t>(index), copy)) {
          ASSERT_EQ(pool.num_free(), 0U);
          ASSERT_EQ(writer.blocks, before);
          continue;
        }
        if (copy)
          memory[copy->to] = memory[copy->from];
        memory[writer.blocks[index]] = ++content;
        writer.wanted[index] = content;
      }
      std::map<std::uint32_t, std::uint32_t> references;
      for (const auto& owner : sequences)
        for (std::size_t i = 0; i < owner.blocks.size(); ++i) {
          ++references[owner.blocks[i]];
          ASSERT_EQ(memory[owner.blocks[i]], owner.wanted[i]);
        }
      ASSERT_EQ(references.size(), pool.num_used());
      for (const auto& [block, count] : references)
        ASSERT_EQ(pool.references(block), count);
    }
  }
}

} // namespace
} // namespace troupe
