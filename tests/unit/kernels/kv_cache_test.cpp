#include "kernels/kv_cache.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(kv_cache, declares_bytes_per_token_of_each_group) {
  const kv_layer_group even{.layers = 3, .kv_heads = 2, .head_dim = 64, .type = dtype::bf16};
  const kv_layer_group odd{.layers = 1, .kv_heads = 1, .head_dim = 40, .type = dtype::f32};
  EXPECT_EQ(even.bytes_per_token(), 2U * (64 + 64) * 2);
  EXPECT_EQ(odd.bytes_per_token(), (64U + 48) * 4); // keys padded to 32, values to 16
  const kv_layer_group narrow{.layers = 1, .kv_heads = 3, .head_dim = 64, .type = dtype::int8};
  EXPECT_EQ(narrow.bytes_per_token(), 3U * (64 + 64 + 2 * 4)); // and two scales
  const kv_layer_group latent{.layers = 1, .kv_heads = 1, .head_dim = 576, .value_dim = 512};
  EXPECT_EQ(latent.bytes_per_token(), 576U * 2); // values are part of the keys
  const kv_cache_config config{{even, odd}, 16};
  EXPECT_EQ(config.layers(), 4U);
  EXPECT_EQ(config.bytes_per_token(), 3U * 512 + 448);
  EXPECT_EQ(config.bytes_per_block(), 16U * (3 * 512 + 448));
}

TEST(kv_cache, layers_of_one_place_share_its_memory) {
  kv_cache_config config{{{4, 2, 64, dtype::bf16}}, 16, {0, 1, 0, 1}};
  EXPECT_EQ(config.bytes_per_token(), 2U * 512);
  kv_cache cache(config, 3);
  EXPECT_EQ(cache.head_block(2, 1, 0), cache.head_block(0, 1, 0));
  EXPECT_EQ(cache.head_block(3, 2, 1), cache.head_block(1, 2, 1));
  EXPECT_GE(cache.head_block(1, 0, 0), cache.head_block(0, 2, 1) + cache.head_block_bytes(0));
  config.places = {0, 1, 0};
  EXPECT_THROW(kv_cache(config, 3), kernel_error);
  config.places = {0, 2, 1, 0};
  EXPECT_THROW(kv_cache(config, 3), kernel_error);
  config = {{{1, 2, 64, dtype::bf16}, {1, 2, 32, dtype::bf16}}, 16, {0, 0}};
  EXPECT_THROW(kv_cache(config, 3), kernel_error) << "of different shapes";
}

TEST(kv_cache, reads_back_what_was_written) {
  for (const dtype type : {dtype::bf16, dtype::f32})
    for (const std::size_t block_tokens : {16UL, 32UL})
      for (const std::size_t head_dim : {8UL, 40UL, 64UL}) {
        constexpr std::size_t heads = 2;
        kv_cache cache({{{2, heads, head_dim, type}}, block_tokens}, 5);
        const std::size_t columns = heads * head_dim;
        const auto keys = random_floats(40 * columns, 1);
        const auto values = random_floats(40 * columns, 2);
        std::vector<std::uint32_t> slots;
        for (std::size_t i = 0; i < 40; ++i) // scattered, each once
          slots.push_back(static_cast<std::uint32_t>(i * 7 % (5 * block_tokens)));
        with_every_context([&](context& ctx) {
          kv_write(ctx, {&cache, 1, view_of(keys.data(), 40, columns), view_of(values.data(), 40, columns),
                         slots});
          std::vector<float> key(columns);
          std::vector<float> value(columns);
          for (std::size_t i = 0; i < 40; ++i) {
            kv_read(cache, 1, slots[i], key, value);
            for (std::size_t c = 0; c < columns; ++c) {
              const float k = keys[i * columns + c];
              const float v = values[i * columns + c];
              ASSERT_EQ(key[c], type == dtype::f32 ? k : to_float(to_bfloat16(k)));
              ASSERT_EQ(value[c], type == dtype::f32 ? v : to_float(to_bfloat16(v)));
            }
          }
          kv_read(cache, 0, slots[3], key, value); // the other layer is untouched
          EXPECT_EQ(key, std::vector<float>(columns, 0.0F));
        });
      }
}

TEST(kv_cache, a_latent_layer_keeps_keys_only) {
  for (const dtype type : {dtype::bf16, dtype::f32}) {
    constexpr std::size_t columns = 72;
    // Between others, whose places depend on its size.
    kv_cache cache({{{1, 1, 8, type}, {1, 1, columns, type, 56}, {1, 1, 8, type}}, 16}, 3);
    const auto rows = random_floats(40 * columns, 1);
    std::vector<std::uint32_t> slots;
    for (std::uint32_t i = 0; i < 40; ++i)
      slots.push_back(i * 7 % 48);
    with_every_context([&](context& ctx) {
      kv_write(ctx, {&cache, 1, view_of(rows.data(), 40, columns), {}, slots});
      std::vector<float> key(columns);
      for (std::size_t i = 0; i < 40; ++i) {
        kv_read(cache, 1, slots[i], key, {});
        for (std::size_t c = 0; c < columns; ++c) {
          const float written = rows[i * columns + c];
          ASSERT_EQ(key[c], type == dtype::f32 ? written : to_float(to_bfloat16(written)));
        }
      }
      std::vector<float> value(8);
      for (const std::size_t layer : {0UL, 2UL})
        for (std::uint32_t slot = 0; slot < 48; ++slot) {
          kv_read(cache, layer, slot, std::span(key).first(8), value);
          ASSERT_EQ(value, std::vector<float>(8, 0.0F));
        }
    });
    cache.copy_block(slots[1] / 16, 2);
    std::vector<float> original(columns);
    std::vector<float> copy(columns);
    kv_read(cache, 1, slots[1], original, {});
    kv_read(cache, 1, 2 * 16 + slots[1] % 16, copy, {});
    EXPECT_EQ(copy, original);
  }
}

TEST(kv_cache, quantizes_each_head_of_a_token_by_itself) {
  constexpr std::size_t heads = 2;
  constexpr std::size_t head_dim = 40;
  constexpr std::size_t columns = heads * head_dim;
  constexpr std::size_t tokens = 21;
  const auto keys = random_floats(tokens * columns, 1);
  auto values = random_floats(tokens * columns, 2);
  std::fill_n(values.begin() + 3 * columns, head_dim, 0.0F); // a head of zeros
  std::vector<std::uint32_t> slots;
  for (std::size_t i = 0; i < tokens; ++i)
    slots.push_back(static_cast<std::uint32_t>(i * 5 % 32));
  for (const std::size_t block_tokens : {16UL, 32UL})
    with_every_context([&](context& ctx) {
      kv_cache cache({{{1, heads, head_dim, dtype::int8}}, block_tokens}, 2);
      kv_write(ctx, {&cache, 0, view_of(keys.data(), tokens, columns),
                     view_of(values.data(), tokens, columns), slots});
      std::vector<float> key(columns);
      std::vector<float> value(columns);
      for (std::size_t i = 0; i < tokens; ++i) {
        kv_read(cache, 0, slots[i], key, value);
        const auto expect_near = [&](const std::vector<float>& written, const std::vector<float>& read) {
          for (std::size_t h = 0; h < heads; ++h) {
            const auto head = std::span(written).subspan(i * columns + h * head_dim, head_dim);
            float most = 0.0F;
            for (const float x : head)
              most = std::max(most, std::abs(x));
            for (std::size_t d = 0; d < head_dim; ++d)
              ASSERT_NEAR(read[h * head_dim + d], head[d], most / 127.0F * 0.5001F) << i << ' ' << h;
          }
        };
        expect_near(keys, key);
        expect_near(values, value);
      }
    });
}

TEST(kv_cache, a_number_that_is_none_makes_its_head_of_a_token_none) {
  for (const float sick : {std::nanf(""), std::numeric_limits<float>::infinity()})
    with_every_context([&](context& ctx) {
      kv_cache cache({{{1, 2, 8, dtype::int8}}, 16}, 1);
      std::vector<float> row(16, 1.0F);
      row[3] = sick;
      const std::vector<std::uint32_t> slot{5};
      kv_write(ctx, {&cache, 0, view_of(row.data(), 1, 16), view_of(row.data(), 1, 16), slot});
      std::vector<float> key(16);
      std::vector<float> value(16);
      kv_read(cache, 0, 5, key, value);
      for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(std::isnan(key[i]), i < 8) << name_of(ctx.instruction_set());
        EXPECT_EQ(std::isnan(value[i]), i < 8) << name_of(ctx.instruction_set());
      }
    });
}

TEST(kv_cache, copies_blocks_in_every_layer) {
  kv_cache cache({{{1, 1, 16, dtype::f32}, {1, 2, 8, dtype::bf16}, {1, 1, 16, dtype::int8}}, 16}, 3);
  const auto rows = random_floats(16, 3);
  reference_context reference;
  const std::vector<std::uint32_t> slot{5};
  for (const std::size_t layer : {0UL, 1UL, 2UL})
    kv_write(reference.ctx, {&cache, layer, view_of(rows.data(), 1, 16), view_of(rows.data(), 1, 16), slot});
  cache.copy_block(0, 2);
  std::vector<float> key(16);
  std::vector<float> value(16);
  kv_read(cache, 0, 2 * 16 + 5, key, value);
  EXPECT_EQ(key, rows);
  kv_read(cache, 1, 2 * 16 + 5, key, value);
  EXPECT_EQ(value, widened(rounded(rows)));
  std::vector<float> original(16);
  kv_read(cache, 2, 5, original, value);
  kv_read(cache, 2, 2 * 16 + 5, key, value);
  EXPECT_EQ(key, original);
  EXPECT_NE(key, std::vector<float>(16, 0.0F));
  kv_read(cache, 0, 16 + 5, key, value);
  EXPECT_EQ(value, std::vector<float>(16, 0.0F));
}

TEST(kv_cache, refuses_shapes_out_of_range) {
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::bf16}}, 24}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 12, dtype::bf16}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 264, dtype::bf16}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 0, 64, dtype::bf16}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::int4}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 648, dtype::bf16, 512}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 640, dtype::bf16, 520}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::bf16, 72}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::bf16, 12}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 2, 64, dtype::bf16, 32}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::int8, 32}}, 16}, 1), kernel_error);
}

} // namespace troupe::kernels
