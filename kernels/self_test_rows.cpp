#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/buffer.hpp"
#include "kernels/self_test_cases.hpp"

namespace troupe::kernels::proof {

namespace {

constexpr activation every_activation[] = {activation::silu, activation::gelu_tanh, activation::gelu_erf,
                                           activation::clamped_glu};

void check_finish(comparison& compare) {
  const auto a = floats(5, 64);
  const auto b = floats(6, 64);
  const auto c = floats(7, 64);
  for (const std::size_t count : {std::size_t{5}, std::size_t{16}, std::size_t{37}})
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      const std::string name = std::string(" ") + name_of(type) + ", " + std::to_string(count) + " columns";
      compare.check("finish_rows" + name, 160, [&](const kernel_table& t, float* out) {
        finish_block block{
            .sum = a.data(), .panel_stride = 24, .bias = b.data(), .rows = 1, .columns = count};
        block.first = bytes(out);
        block.type = type;
        t.finish_rows(block);
      });
      for (const activation kind : every_activation) {
        compare.check("activate_row" + name, std::size_t{64} * 4, [&](const kernel_table& t, float* out) {
          t.activate_row(kind, 0.75F, raw(a), dtype::f32, raw(b), dtype::f32, count + 20, bytes(out), type);
        });
      }
    }
  // Two rows that are 20 rows apart in their sums' panels.
  const auto sums = floats(23, std::size_t{8} * 32);
  for (const row_layout layout : {row_layout::f32, row_layout::bf16_split, row_layout::bf16_dots,
                                  row_layout::bf16_tiles, row_layout::bf16})
    for (const activation kind : every_activation)
      for (const std::size_t count : {std::size_t{5}, std::size_t{37}})
        compare.check("activate_rows, layout " + std::to_string(static_cast<int>(layout)) + ", "
                          + std::to_string(count) + " columns",
                      8192, [&](const kernel_table& t, float* out) {
                        activation_block block{.kind = kind,
                                               .limit = 0.75F,
                                               .gate = sums.data(),
                                               .gate_bias = b.data(),
                                               .up = sums.data() + 32,
                                               .panel_stride = 64,
                                               .rows = 2,
                                               .column = 16,
                                               .columns = count,
                                               .end = 64};
                        block.out = bytes(out);
                        block.row_stride = layout == row_layout::bf16_tiles ? 64 : 1024;
                        block.layout = layout;
                        t.activate_rows(block);
                        block.up = nullptr;
                        block.column = 0;
                        block.columns = block.end = 16;
                        t.activate_rows(block);
                      });
  compare.check("finish_rows added", std::size_t{2} * 40 * 4, [&](const kernel_table& t, float* out) {
    std::byte* rows[] = {bytes(out), bytes(out + 40)};
    finish_block block{.sum = sums.data(), .panel_stride = 32, .rows = 2, .columns = 37, .out = rows};
    block.accumulate = true;
    t.finish_rows(block);
    block.factor = 0.22F;
    t.finish_rows(block);
  });
}

void check_row_ops(comparison& compare, dtype type, std::size_t count) {
  const auto x_f32 = floats(8, count);
  const auto x_bf16 = bfloats(8, count);
  const auto w = floats(9, count);
  const auto b = floats(10, count);
  const std::byte* x = type == dtype::f32 ? raw(x_f32) : raw(x_bf16);
  const std::string name = std::string(" ") + name_of(type) + ", " + std::to_string(count) + " values";
  for (const dtype out_type : {dtype::f32, dtype::bf16}) {
    compare.check("rms_norm" + name, count * 4, [&](const kernel_table& t, float* out) {
      t.rms_norm_row(x, type, w.data(), 1.0F, 1e-6F, count, bytes(out), out_type);
    });
    compare.check("rms_norm without weights" + name, count * 4, [&](const kernel_table& t, float* out) {
      t.rms_norm_row(x, type, nullptr, 0.0F, 1e-6F, count, bytes(out), out_type);
    });
    compare.check("layer_norm" + name, count * 4, [&](const kernel_table& t, float* out) {
      t.layer_norm_row(x, type, w.data(), b.data(), 1e-5F, count, bytes(out), out_type);
    });
    compare.check("scale_row" + name, count * 4, [&](const kernel_table& t, float* out) {
      t.scale_row(x, type, 1.7F, count, bytes(out), out_type);
    });
  }
  compare.check("add_scaled_row" + name, count * 4,
                [&](const kernel_table& t, float* out) { t.add_scaled_row(x, type, 0.3F, count, out); });
  compare.check("dot" + name, 4,
                [&](const kernel_table& t, float* out) { out[0] = t.dot(x, type, w.data(), count); });
  const std::array<const std::byte*, 3> rows{x, nullptr, x};
  const std::array<float, 3> weights{0.25F, 0.5F, 0.7F};
  compare.check("combine" + name, count * 4, [&](const kernel_table& t, float* out) {
    t.combine_row(rows.data(), weights.data(), rows.size(), type, count, out);
  });
}

void check_scores(comparison& compare, std::size_t count) {
  const auto x = floats(11, count);
  const auto cos = floats(12, count);
  const auto sin = floats(13, count);
  const std::string name = ", " + std::to_string(count) + " values";
  compare.check("softmax" + name, count * 4 + 4,
                [&](const kernel_table& t, float* out) { out[count] = t.softmax_row(x.data(), count, out); });
  compare.check("sigmoid" + name, count * 4,
                [&](const kernel_table& t, float* out) { t.sigmoid_row(x.data(), count, out); });
  compare.check("max_row" + name, 4,
                [&](const kernel_table& t, float* out) { out[0] = t.max_row(x.data(), count); });
  compare.check("exp_sum" + name, count * 4 + 8, [&](const kernel_table& t, float* out) {
    const double sum = t.exp_sum(x.data(), 16.0F, 0.8F, count, out);
    std::memcpy(out + count, &sum, sizeof sum);
  });
  compare.check("rope" + name, count * 8, [&](const kernel_table& t, float* out) {
    std::copy_n(cos.data(), count, out);
    std::copy_n(x.data(), count, out + count);
    t.rope_half(out, cos.data(), sin.data(), count);
    t.rope_interleaved(out, sin.data(), cos.data(), count);
  });
}

// Tiles of a KV cache (kv_cache.hpp): numbers; for int8, integers and the tokens' scales.
struct cache_tiles {
  std::vector<std::byte> memory;
  std::size_t stride; // bytes between tiles

  cache_tiles(dtype type, unsigned seed, std::size_t tiles, std::size_t dims) {
    const std::size_t elements = dims * 16;
    const std::size_t number_bytes = bytes_of(type, elements);
    stride = number_bytes + (type == dtype::int8 ? 16 * sizeof(float) : 0);
    memory.resize(tiles * stride);
    const auto wide = floats(seed, tiles * elements);
    const auto narrow = bfloats(seed, tiles * elements);
    for (std::size_t i = 0; i < tiles; ++i) {
      std::byte* tile = memory.data() + i * stride;
      if (type == dtype::f32)
        std::memcpy(tile, wide.data() + i * elements, number_bytes);
      else if (type == dtype::bf16)
        std::memcpy(tile, narrow.data() + i * elements, number_bytes);
      else {
        for (std::size_t e = 0; e < elements; ++e)
          tile[e] = static_cast<std::byte>(static_cast<int>(e * 37 + i * 11) % 255 - 127);
        for (std::size_t t = 0; t < 16; ++t) {
          const float scale = (1.0F + static_cast<float>((t * 5 + i) % 16) / 16.0F) / 127.0F;
          std::memcpy(tile + number_bytes + t * sizeof scale, &scale, sizeof scale);
        }
      }
    }
  }

  // Makes the numbers of the last token's key NaN.
  void spoil_last_key(dtype type) {
    const float nan = std::nanf("");
    const bfloat16 narrow = to_bfloat16(nan);
    std::byte* tile = memory.data() + memory.size() - stride;
    const std::size_t row = type == dtype::f32 ? 16 * sizeof nan : 32 * sizeof narrow;
    for (std::byte* end = tile + row; end <= tile + stride; end += row)
      if (type == dtype::f32) {
        std::memcpy(end - sizeof nan, &nan, sizeof nan);
      } else { // a pair of dimensions
        std::memcpy(end - sizeof narrow, &narrow, sizeof narrow);
        std::memcpy(end - 2 * sizeof narrow, &narrow, sizeof narrow);
      }
  }

  // Makes the values of the last token, or its scale, NaN.
  void spoil_last(dtype type, std::size_t dims) {
    std::byte* end = memory.data() + memory.size();
    const float nan = std::nanf("");
    const bfloat16 narrow = to_bfloat16(nan);
    if (type == dtype::int8)
      std::memcpy(end - sizeof nan, &nan, sizeof nan);
    else
      for (std::size_t d = 0; d < dims; ++d) {
        if (type == dtype::f32)
          std::memcpy(end - (d + 1) * sizeof nan, &nan, sizeof nan); // a row
        else
          std::memcpy(end - (2 * d + 1) * sizeof narrow, &narrow,
                      sizeof narrow); // every other of a row of pairs
      }
  }
};

/// @param last_is_nan  the last key's values (or scale) are NaN, and no row sees it
/// @param row_type     of queries and outputs
/// @param value_dim    not 0: the cache is latent
void check_attention(comparison& compare, dtype type, std::size_t head_dim, std::size_t group,
                     bool last_is_nan, dtype row_type = dtype::f32, std::size_t value_dim = 0) {
  constexpr std::size_t tokens = 9; // with two heads 18 rows: one tile of 16 and a rest
  constexpr std::size_t tiles = 5;  // 80 keys: two chunks and half of one
  const std::size_t width = value_dim != 0 ? value_dim : head_dim;
  const std::size_t padded_width = (width + 15) / 16 * 16;
  cache_tiles keys(type, 14, tiles, (head_dim + 31) / 32 * 32);
  cache_tiles values(type, 15, tiles, padded_width);
  constexpr std::size_t last_key = tiles * 16 - 1;
  if (last_is_nan)
    values.spoil_last(type, padded_width);
  if (last_is_nan && value_dim != 0)
    keys.spoil_last_key(type);
  buffer latent_values(latent_values_bytes(type, width));
  const auto queries = floats(16, tokens * group * head_dim);
  const auto narrow_queries = bfloats(16, tokens * group * head_dim);
  std::array<const std::byte*, tiles> key_tiles{};
  std::array<const std::byte*, tiles> value_tiles{};
  for (std::size_t i = 0; i < tiles; ++i) {
    key_tiles[i] = keys.memory.data() + i * keys.stride;
    value_tiles[i] = values.memory.data() + i * values.stride;
  }
  const std::array<std::size_t, tokens> first{0, 0, 35, 0, 0, 1, 64, 31, 0};
  const std::size_t all = last_is_nan ? last_key : last_key + 1;
  const std::array<std::size_t, tokens> end{64, 67, 70, 1, 32, 33, 65, all, all};
  std::vector<float> sinks(group, -1.0F);
  sinks.front() = 0.5F;
  // Products of 64 such values are in the hundreds, for int8 smaller by the scales: scaled so that many keys
  // count.
  const float scale = type == dtype::int8 ? 0.05F : 0.005F;
  std::array<const std::byte*, tokens> query{};
  for (std::size_t t = 0; t < tokens; ++t)
    query[t] = (row_type == dtype::f32 ? raw(queries) : raw(narrow_queries))
               + bytes_of(row_type, t * group * head_dim);
  buffer scratch(attention_scratch_bytes(tokens * group, head_dim));
  const std::string name = std::string(name_of(type)) + ", rows " + name_of(row_type) + ", head_dim "
                           + std::to_string(head_dim) + (value_dim != 0 ? ", latent" : "") + ", group "
                           + std::to_string(group) + (last_is_nan ? ", a NaN unseen" : "");
  const auto attend = [&](bool columns) {
    return [&, columns](const kernel_table& t, float* out) {
      std::array<std::byte*, tokens> output{};
      for (std::size_t i = 0; i < tokens; ++i)
        output[i] = bytes(out) + bytes_of(row_type, i * group * width);
      (columns && t.attention_columns != nullptr ? t.attention_columns : t.attention)(
          {.key_tiles = key_tiles.data(),
           .value_tiles = value_dim != 0 ? nullptr : value_tiles.data(),
           .num_tiles = tiles,
           .cache_type = type,
           .head_dim = head_dim,
           .value_dim = width,
           .query = query.data(),
           .query_type = row_type,
           .output = output.data(),
           .output_type = row_type,
           .tokens = tokens,
           .group = group,
           .first_key = first.data(),
           .end_key = end.data(),
           .scale = scale,
           .sinks = sinks.data(),
           .scratch = scratch.data(),
           .latent_values = latent_values.data()});
    };
  };
  const std::size_t num_bytes = bytes_of(row_type, tokens * group * width);
  compare.check("attention " + name, num_bytes, attend(false));
  if (compare.candidate().attention_columns != nullptr)
    compare.check("attention in columns " + name, num_bytes, attend(true));
}

} // namespace

void check_rows(comparison& compare) {
  check_finish(compare);
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    check_row_ops(compare, type, 48);
    check_row_ops(compare, type, 37);
  }
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::int8})
    for (const std::size_t head_dim : {std::size_t{40}, std::size_t{64}})
      for (const std::size_t group : {std::size_t{1}, std::size_t{2}})
        for (const bool last_is_nan : {false, true})
          check_attention(compare, type, head_dim, group, last_is_nan);
  // Wide heads, more rows than a block of 64, and BF16 in and out.
  check_attention(compare, dtype::bf16, 128, 8, false, dtype::bf16);
  check_attention(compare, dtype::int8, 256, 3, true, dtype::bf16);
  check_attention(compare, dtype::f32, 96, 8, true);
  for (const bool last_is_nan : {false, true}) {
    check_attention(compare, dtype::f32, 72, 3, last_is_nan, dtype::f32, 56);
    check_attention(compare, dtype::bf16, 72, 1, last_is_nan, dtype::f32, 56);
    check_attention(compare, dtype::bf16, 144, 8, last_is_nan, dtype::bf16, 128);
  }
  check_scores(compare, 7);
  check_scores(compare, 300);
}

} // namespace troupe::kernels::proof
