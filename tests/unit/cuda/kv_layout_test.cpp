#include "kernels/cuda/kv_layout.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace troupe::kernels::cuda {

TEST(kv_layer, keys_values_and_scales_fill_a_block_without_gaps_or_overlaps) {
  for (const dtype type : {dtype::bf16, dtype::int8}) {
    const kv_layer layer{.blocks = 2, .block_tokens = 16, .kv_heads = 3, .head_dim = 40, .type = type};
    std::vector<int> uses(2 * layer.block_bytes());
    const auto use = [&](std::size_t at, std::size_t count) {
      for (std::size_t i = at; i < at + count; ++i)
        ++uses.at(i);
    };
    for (std::size_t slot = 0; slot < 2 * layer.block_tokens; ++slot)
      for (std::size_t head = 0; head < layer.kv_heads; ++head) {
        EXPECT_EQ(layer.key_offset(slot, head) / layer.block_bytes(), slot / layer.block_tokens);
        use(layer.key_offset(slot, head), layer.head_bytes());
        use(layer.value_offset(slot, head), layer.head_bytes());
        if (type == dtype::int8) {
          EXPECT_EQ(layer.key_scale_offset(slot, head) % sizeof(float), 0U);
          use(layer.key_scale_offset(slot, head), sizeof(float));
          use(layer.value_scale_offset(slot, head), sizeof(float));
        }
      }
    EXPECT_EQ(uses, std::vector<int>(uses.size(), 1)) << name_of(type);
  }
}

TEST(kv_layer, a_latent_value_is_where_its_key_begins) {
  const kv_layer layer{
      .blocks = 2, .block_tokens = 16, .kv_heads = 1, .head_dim = 576, .type = dtype::bf16, .value_dim = 512};
  EXPECT_EQ(layer.block_bytes(), 16U * 576 * 2);
  for (std::size_t slot = 0; slot < 32; ++slot) {
    EXPECT_EQ(layer.key_offset(slot, 0), slot * 576 * 2);
    EXPECT_EQ(layer.value_offset(slot, 0), layer.key_offset(slot, 0));
  }
}

TEST(kv_layer, loads_are_aligned) {
  for (std::size_t head_dim = 8; head_dim <= 256; head_dim += 8)
    for (const dtype type : {dtype::bf16, dtype::int8}) {
      const kv_layer layer{
          .blocks = 3, .block_tokens = 16, .kv_heads = 1, .head_dim = head_dim, .type = type};
      const std::size_t load = type == dtype::bf16 ? 16 : 8; // of eight dimensions
      EXPECT_EQ(layer.block_bytes() % 16, 0U);
      for (const std::size_t slot : {0U, 1U, 17U}) {
        EXPECT_EQ(layer.key_offset(slot, 0) % load, 0U);
        EXPECT_EQ(layer.value_offset(slot, 0) % load, 0U);
      }
    }
}

} // namespace troupe::kernels::cuda
