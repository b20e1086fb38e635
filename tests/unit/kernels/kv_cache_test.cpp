#include "kernels/kv_cache.hpp"

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(kv_cache, declares_bytes_per_token_of_each_group) {
  const kv_layer_group even{.layers = 3, .kv_heads = 2, .head_dim = 64, .type = dtype::bf16};
  const kv_layer_group odd{.layers = 1, .kv_heads = 1, .head_dim = 40, .type = dtype::f32};
  EXPECT_EQ(even.bytes_per_token(), 2U * (64 + 64) * 2);
  EXPECT_EQ(odd.bytes_per_token(), (64U + 48) * 4); // keys padded to 32, values to 16
  const kv_cache_config config{{even, odd}, 16};
  EXPECT_EQ(config.layers(), 4U);
  EXPECT_EQ(config.bytes_per_token(), 3U * 512 + 448);
  EXPECT_EQ(config.bytes_per_block(), 16U * (3 * 512 + 448));
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

TEST(kv_cache, copies_blocks_in_every_layer) {
  kv_cache cache({{{1, 1, 16, dtype::f32}, {1, 2, 8, dtype::bf16}}, 16}, 3);
  const auto rows = random_floats(16, 3);
  reference_context reference;
  const std::vector<std::uint32_t> slot{5};
  for (const std::size_t layer : {0UL, 1UL})
    kv_write(reference.ctx, {&cache, layer, view_of(rows.data(), 1, 16), view_of(rows.data(), 1, 16), slot});
  cache.copy_block(0, 2);
  std::vector<float> key(16);
  std::vector<float> value(16);
  kv_read(cache, 0, 2 * 16 + 5, key, value);
  EXPECT_EQ(key, rows);
  kv_read(cache, 1, 2 * 16 + 5, key, value);
  EXPECT_EQ(value, widened(rounded(rows)));
  kv_read(cache, 0, 16 + 5, key, value);
  EXPECT_EQ(value, std::vector<float>(16, 0.0F));
}

TEST(kv_cache, refuses_shapes_out_of_range) {
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::bf16}}, 24}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 12, dtype::bf16}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 264, dtype::bf16}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 0, 64, dtype::bf16}}, 16}, 1), kernel_error);
  EXPECT_THROW(kv_cache({{{1, 1, 64, dtype::int8}}, 16}, 1), kernel_error);
}

} // namespace troupe::kernels
