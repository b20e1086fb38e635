#include "kernels/self_test.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/sampling.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe::kernels {

namespace {

// Values of both signs over several magnitudes, some zero, some denormal: what kernels meet, and what trips
// them.
float value_at(std::uint32_t stream, std::size_t i) {
  const auto words = philox4x32({static_cast<std::uint32_t>(i), stream, 0, 0}, {1, 2});
  if (words[1] % 61 == 0)
    return 0.0F;
  if (words[1] % 67 == 0)
    return 1e-40F;
  const float unit = static_cast<float>(static_cast<std::int32_t>(words[0])) * (1.0F / 2147483648.0F);
  return unit * static_cast<float>(1U << words[1] % 5);
}

std::vector<float> floats(std::uint32_t stream, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_at(stream, i);
  return values;
}

std::vector<bfloat16> bfloats(std::uint32_t stream, std::size_t count) {
  std::vector<bfloat16> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = to_bfloat16(value_at(stream, i));
  return values;
}

template <class T>
const std::byte* raw(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// Runs one op with both tables into equally poisoned memory and compares all of it, so that a write past the
// end shows as well.
class comparison {
 public:
  explicit comparison(const kernel_table& candidate) : candidate_(candidate) {}

  const std::optional<std::string>& failure() const { return failure_; }

  // `op(table, out)` writes at most `num_bytes`.
  template <class Op>
  void check(const std::string& name, std::size_t num_bytes, const Op& op) {
    if (failure_)
      return;
    std::vector<float> expected(num_bytes / sizeof(float) + 17);
    std::memset(expected.data(), 0x3c, expected.size() * sizeof(float)); // 0.0115, not NaN: some ops add
    std::vector<float> got = expected;
    op(cpu::portable_table, expected.data());
    op(candidate_, got.data());
    if (std::memcmp(expected.data(), got.data(), expected.size() * sizeof(float)) != 0)
      failure_ = name;
  }

 private:
  const kernel_table& candidate_;
  std::optional<std::string> failure_;
};

std::byte* bytes(float* out) {
  return reinterpret_cast<std::byte*>(out);
}

void check_products(comparison& compare) {
  constexpr std::size_t blocks = 3;
  constexpr std::size_t k = blocks * 32;
  const auto panel = bfloats(1, k * 16);
  const auto panel_f32 = floats(2, k * 16);
  for (const std::size_t count : {std::size_t{1}, std::size_t{33}, k}) {
    const auto row_f32 = floats(3, k);
    const auto row_bf16 = bfloats(3, k);
    const std::string length = ", " + std::to_string(count) + " values";
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      const std::byte* row = type == dtype::f32 ? raw(row_f32) : raw(row_bf16);
      compare.check("pack_row_bf16" + length, k * 4,
                    [&](const kernel_table& t, float* out) { t.pack_row_bf16(row, type, count, out); });
      compare.check("pack_row_f32" + length, k * 4,
                    [&](const kernel_table& t, float* out) { t.pack_row_f32(row, type, count, out); });
    }
  }
  compare.check("expand_bf16", k * 16 * 4,
                [&](const kernel_table& t, float* out) { t.expand_bf16(raw(panel), blocks, out); });
  // Every register block: 1 to 12 rows, and more than one of them.
  for (std::size_t rows = 1; rows <= 14; ++rows) {
    constexpr std::size_t stride = k + 16;
    const auto a = floats(4, rows * stride);
    const std::string name = ", " + std::to_string(rows) + " rows";
    compare.check("gemm bf16 direct" + name, rows * 16 * 4, [&](const kernel_table& t, float* out) {
      t.bf16_direct(a.data(), stride, rows, raw(panel), blocks, out, 16);
    });
    compare.check("gemm bf16 expanded" + name, rows * 16 * 4, [&](const kernel_table& t, float* out) {
      t.bf16_expanded(a.data(), stride, rows, panel_f32.data(), blocks, out, 16);
    });
    compare.check("gemm f32" + name, rows * 16 * 4, [&](const kernel_table& t, float* out) {
      t.f32_panel(a.data(), stride, rows, panel_f32.data(), k - 3, out, 16);
    });
  }
}

// Rows in tiles against the portable product of the same rows: every remainder of rows and panels, sums that
// begin at zero and that go on.
void check_tiles(comparison& compare) {
  constexpr std::size_t blocks = 2;
  constexpr std::size_t k = blocks * 32 - 5;
  constexpr std::size_t most_rows = 50;
  constexpr std::size_t panels = 7;
  constexpr std::size_t stride = blocks * 32;
  const auto weights = bfloats(21, panels * blocks * 512);
  const auto x_f32 = floats(22, most_rows * k);
  const auto x_bf16 = bfloats(22, most_rows * k);
  std::vector<float> split(most_rows * stride);
  // Operands of tiles lie on cache lines.
  std::vector<std::byte> memory((most_rows + 15) / 16 * blocks * 1024 + 64);
  std::byte* tiles = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  for (const dtype type : {dtype::f32, dtype::bf16})
    for (const std::size_t rows : {std::size_t{1}, std::size_t{17}, std::size_t{50}})
      for (const std::size_t count : {std::size_t{1}, std::size_t{4}, panels}) {
        if (type == dtype::f32 && count != 1)
          continue; // only packing differs
        const std::string name = "gemm in tiles " + std::string(name_of(type)) + ", " + std::to_string(rows)
                                 + " rows, " + std::to_string(count) + " panels";
        const auto row = [&](std::size_t r) {
          return type == dtype::f32 ? raw(x_f32) + r * k * 4 : raw(x_bf16) + r * k * 2;
        };
        compare.check(name, count * rows * 16 * 4, [&](const kernel_table& t, float* out) {
          if (t.bf16_tiles == nullptr) {
            for (std::size_t r = 0; r < rows; ++r)
              t.pack_row_bf16(row(r), type, k, split.data() + r * stride);
            for (std::size_t p = 0; p < count; ++p) {
              float* c = out + p * rows * 16;
              std::fill_n(c, rows * 16, 0.0F);
              for (int i = 0; i < 2; ++i)
                t.bf16_direct(split.data(), stride, rows, raw(weights) + p * blocks * 1024, blocks, c, 16);
            }
            return;
          }
          for (std::size_t r = 0; r < rows; ++r)
            t.pack_row_tiles(row(r), type, k, tiles + r / 16 * blocks * 1024 + r % 16 * 64);
          const std::size_t padded = (rows + 15) / 16 * 16;
          std::vector<float> c(padded * count * 16);
          tile_product product{.a = tiles,
                               .a_stride = blocks * 1024,
                               .rows = rows,
                               .panel = raw(weights),
                               .panel_stride = blocks * 1024,
                               .panels = count,
                               .blocks = blocks,
                               .c = c.data(),
                               .c_stride = padded * 16};
          t.bf16_tiles(product);
          product.accumulate = true;
          t.bf16_tiles(product);
          for (std::size_t p = 0; p < count; ++p)
            std::copy_n(c.data() + p * padded * 16, rows * 16, out + p * rows * 16);
        });
      }
}

// int8 rows in tiles against the portable product of the same rows.
void check_int8_tiles(comparison& compare) {
  constexpr std::size_t k = 160;
  constexpr std::size_t tile_stride = int8_row_sums(k) * 16 + 64;
  constexpr std::size_t stride = k * 4 + 64;
  constexpr std::size_t most_rows = 50;
  constexpr std::size_t columns = 48;
  const auto weights = floats(24, columns * k);
  const auto x_f32 = floats(25, most_rows * k);
  const auto x_bf16 = bfloats(25, most_rows * k);
  for (const packed_format format :
       {packed_format::int8_channel, packed_format::int4_channel, packed_format::int4_group32})
    for (const dtype type : {dtype::f32, dtype::bf16})
      for (const std::size_t rows : {std::size_t{7}, std::size_t{33}, most_rows}) {
        const auto packed = packed_matrix::pack(format, view_of(weights.data(), columns, k));
        const packed_shape& shape = packed.shape();
        const auto panel_at = [&](std::size_t p) {
          const std::byte* data = packed.panel(p);
          quant_panel panel;
          panel.format = format;
          panel.weights = data;
          panel.group_scales = shape.group() == 0 ? nullptr : data + shape.panel_weight_bytes();
          panel.group_blocks = shape.group() / 32;
          panel.scales = reinterpret_cast<const float*>(data + shape.panel_scales_offset());
          return panel;
        };
        const auto row = [&](std::size_t r) {
          return type == dtype::f32 ? raw(x_f32) + r * k * 4 : raw(x_bf16) + r * k * 2;
        };
        constexpr std::size_t panels = columns / 16;
        compare.check(
            std::string("integer gemm in tiles ") + name_of(format) + " " + name_of(type) + ", "
                + std::to_string(rows) + " rows",
            panels * rows * 64, [&](const kernel_table& t, float* out) {
              if (t.int8_tiles == nullptr) {
                std::vector<std::byte> integers(rows * stride);
                for (std::size_t r = 0; r < rows; ++r)
                  t.quant.quantize_row(row(r), type, k, integers.data() + r * stride);
                for (std::size_t p = 0; p < panels; ++p)
                  t.quant.integer(integers.data(), stride, rows, panel_at(p), 1, {}, k, out + p * rows * 16);
                return;
              }
              const std::size_t padded = (rows + 15) / 16 * 16;
              buffer memory(padded / 16 * tile_stride + panels * int8_row_sums(k) * 16);
              std::byte* a = memory.data();
              std::byte* unpacked = a + padded / 16 * tile_stride;
              for (std::size_t r = 0; r < rows; ++r) {
                std::byte* tile = a + r / 16 * tile_stride;
                t.quantize_row_tiles(row(r), type, k, tile + r % 16 * 64,
                                     reinterpret_cast<float*>(tile + int8_row_sums(k) * 16) + r % 16);
              }
              std::vector<float> c(padded * columns);
              tile_product product{.a = a,
                                   .a_stride = tile_stride,
                                   .rows = rows,
                                   .panel = packed.panel(0),
                                   .panel_stride = shape.panel_bytes(),
                                   .panels = panels,
                                   .blocks = int8_row_sums(k) / 64,
                                   .c = c.data(),
                                   .c_stride = padded * 16};
              if (format != packed_format::int8_channel) {
                product.panel = unpacked;
                product.panel_stride = int8_row_sums(k) * 16;
                for (std::size_t p = 0; p < panels; ++p)
                  t.unpack_int4(panel_at(p), k, unpacked + p * product.panel_stride);
              }
              t.int8_tiles(product);
              for (std::size_t p = 0; p < panels; ++p) {
                float* sums = c.data() + p * padded * 16;
                t.scale_int8_tiles(panel_at(p).scales, a, tile_stride, rows, k, sums);
                std::copy_n(sums, rows * 16, out + p * rows * 16);
              }
            });
      }
}

void check_quantized(comparison& compare) {
  constexpr std::size_t k = 160;
  constexpr std::size_t blocks = k / 32;
  constexpr std::size_t panels = 7;
  const auto weights = floats(17, panels * 16 * k);
  for (const packed_format format : {packed_format::int8_channel, packed_format::int4_channel,
                                     packed_format::int4_group32, packed_format::int4_group64}) {
    const auto packed = packed_matrix::pack(format, view_of(weights.data(), panels * 16, k));
    const packed_shape& shape = packed.shape();
    const std::byte* data = packed.panel(0);
    const quant_panel panel{format,
                            data,
                            shape.group() == 0 ? nullptr : data + shape.panel_weight_bytes(),
                            shape.group() / 32,
                            reinterpret_cast<const float*>(data + shape.panel_scales_offset()),
                            shape.panel_bytes()};
    const std::string name = std::string(" ") + name_of(format);
    compare.check("expand" + name, k * 16 * 4,
                  [&](const kernel_table& t, float* out) { t.quant.expand(panel, 0, blocks, out); });
    compare.check("pairs" + name, k * 16 * 2,
                  [&](const kernel_table& t, float* out) { t.quant.pairs(panel, 0, blocks, bytes(out)); });
    for (std::size_t rows = 1; rows <= 18; rows += rows < 9 ? 1 : 9) {
      constexpr std::size_t stride = k + 16;
      const auto a = floats(18, rows * stride);
      const std::string some = name + ", " + std::to_string(rows) + " rows";
      compare.check("gemm" + some, rows * 16 * 4, [&](const kernel_table& t, float* out) {
        t.quant.direct(a.data(), stride, rows, panel, 0, blocks, out, 16);
        t.quant.scale(panel, rows, out);
      });
      std::vector<float> integers(rows * stride);
      for (std::size_t r = 0; r < rows; ++r)
        cpu::portable_table.quant.quantize_row(reinterpret_cast<const std::byte*>(a.data() + r * stride),
                                               dtype::f32, k, bytes(integers.data() + r * stride));
      for (const std::size_t count : {std::size_t{1}, panels})
        compare.check("integer gemm" + some + ", " + std::to_string(count) + " panels", count * rows * 16 * 4,
                      [&](const kernel_table& t, float* out) {
                        t.quant.integer(raw(integers), stride * 4, rows, panel, count, {}, k, out);
                      });
    }
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{37}, k}) {
    const auto row_f32 = floats(19, k);
    const auto row_bf16 = bfloats(19, k);
    const std::string length = ", " + std::to_string(count) + " values";
    // Padding between the parts of such a row is anybody's.
    const auto with_row = [&](const auto& quantize) {
      return [&, quantize](const kernel_table& t, float* out) {
        std::vector<float> row(2 * k, 0.0F);
        quantize(t, bytes(row.data()));
        std::memcpy(out, row.data(), int8_row_sums(count));
        std::memcpy(out + k, bytes(row.data()) + int8_row_scale(count), 8);
      };
    };
    compare.check("quantize_row f32" + length, k * 4 + 8,
                  with_row([&](const kernel_table& t, std::byte* row) {
                    t.quant.quantize_row(raw(row_f32), dtype::f32, count, row);
                  }));
    compare.check("quantize_row bf16" + length, k * 4 + 8,
                  with_row([&](const kernel_table& t, std::byte* row) {
                    t.quant.quantize_row(raw(row_bf16), dtype::bf16, count, row);
                  }));
  }
}

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
      for (const activation kind : {activation::silu, activation::gelu_tanh, activation::gelu_erf}) {
        compare.check("activate_row" + name, std::size_t{64} * 4, [&](const kernel_table& t, float* out) {
          t.activate_row(kind, raw(a), dtype::f32, raw(b), dtype::f32, count + 20, bytes(out), type);
        });
      }
    }
  // Two rows, 20 rows apart from one another in their sums' panels.
  const auto sums = floats(23, std::size_t{8} * 32);
  for (const row_layout layout :
       {row_layout::f32, row_layout::bf16_split, row_layout::bf16_tiles, row_layout::bf16})
    for (const activation kind : {activation::silu, activation::gelu_tanh, activation::gelu_erf})
      for (const std::size_t count : {std::size_t{5}, std::size_t{37}})
        compare.check("activate_rows, layout " + std::to_string(static_cast<int>(layout)) + ", "
                          + std::to_string(count) + " columns",
                      8192, [&](const kernel_table& t, float* out) {
                        activation_block block{.kind = kind,
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
  });
}

void check_rows(comparison& compare, dtype type, std::size_t count) {
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
    compare.check("layer_norm" + name, count * 4, [&](const kernel_table& t, float* out) {
      t.layer_norm_row(x, type, w.data(), b.data(), 1e-5F, count, bytes(out), out_type);
    });
    compare.check("scale_row" + name, count * 4, [&](const kernel_table& t, float* out) {
      t.scale_row(x, type, 1.7F, count, bytes(out), out_type);
    });
  }
  compare.check("add_row" + name, count * 4,
                [&](const kernel_table& t, float* out) { t.add_row(x, type, count, out); });
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

void check_attention(comparison& compare, dtype type, std::size_t head_dim) {
  constexpr std::size_t tokens = 9; // 18 rows: one tile of 16 and a rest
  constexpr std::size_t group = 2;
  constexpr std::size_t tiles = 5; // 80 keys: two chunks and half of one
  const std::size_t key_elements = (head_dim + 31) / 32 * 32 * 16;
  const std::size_t value_elements = (head_dim + 15) / 16 * 16 * 16;
  const auto keys_f32 = floats(14, tiles * key_elements);
  const auto keys_bf16 = bfloats(14, tiles * key_elements);
  const auto values_f32 = floats(15, tiles * value_elements);
  const auto values_bf16 = bfloats(15, tiles * value_elements);
  const auto queries = floats(16, tokens * group * head_dim);
  std::array<const std::byte*, tiles> key_tiles{};
  std::array<const std::byte*, tiles> value_tiles{};
  for (std::size_t i = 0; i < tiles; ++i) {
    key_tiles[i] = (type == dtype::f32 ? raw(keys_f32) : raw(keys_bf16)) + bytes_of(type, i * key_elements);
    value_tiles[i] =
        (type == dtype::f32 ? raw(values_f32) : raw(values_bf16)) + bytes_of(type, i * value_elements);
  }
  const std::array<std::size_t, tokens> first{0, 0, 35, 0, 0, 1, 64, 31, 0};
  const std::array<std::size_t, tokens> end{64, 67, 70, 1, 32, 33, 65, 80, 80};
  const std::array<float, group> sinks{0.5F, -1.0F};
  // Products of 64 such values are in the hundreds: scaled so that many keys count.
  constexpr float scale = 0.005F;
  std::array<const std::byte*, tokens> query{};
  for (std::size_t t = 0; t < tokens; ++t)
    query[t] = raw(queries) + t * group * head_dim * 4;
  buffer scratch(attention_scratch_bytes(tokens * group, head_dim));
  compare.check(std::string("attention ") + name_of(type) + ", head_dim " + std::to_string(head_dim),
                tokens * group * head_dim * 4, [&](const kernel_table& t, float* out) {
                  std::array<std::byte*, tokens> output{};
                  for (std::size_t i = 0; i < tokens; ++i)
                    output[i] = bytes(out + i * group * head_dim);
                  t.attention({key_tiles.data(), value_tiles.data(), tiles, type, head_dim, query.data(),
                               dtype::f32, output.data(), dtype::f32, tokens, group, first.data(), end.data(),
                               scale, sinks.data(), scratch.data()});
                });
}

} // namespace

std::optional<std::string> self_test(const kernel_table& candidate) {
  const float_mode_guard mode;
  comparison compare(candidate);
  check_products(compare);
  check_quantized(compare);
  if (candidate.bf16_tiles != nullptr)
    check_tiles(compare);
  if (candidate.int8_tiles != nullptr)
    check_int8_tiles(compare);
  check_finish(compare);
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    check_rows(compare, type, 48);
    check_rows(compare, type, 37);
    check_attention(compare, type, 40);
    check_attention(compare, type, 64);
  }
  check_scores(compare, 7);
  check_scores(compare, 300);
  return compare.failure();
}

std::optional<std::string> self_test(isa set) {
  return self_test(table_of(set));
}

isa_selection select_isa(std::span<const kernel_table* const> candidates) {
  isa_selection selection;
  for (std::size_t i = candidates.size() - 1; i > 0; --i) {
    auto failure = self_test(*candidates[i]);
    if (!failure) {
      selection.chosen = candidates[i]->set;
      return selection;
    }
    selection.refused.push_back({candidates[i]->set, std::move(*failure)});
  }
  selection.chosen = candidates.front()->set;
  return selection;
}

isa_selection select_isa(std::optional<isa> forced) {
  if (forced) {
    const auto failure = self_test(*forced);
    if (failure)
      throw std::runtime_error(std::string("instruction set ") + name_of(*forced)
                               + " gives other bits than the portable reference in " + *failure);
    return {*forced, {}};
  }
  std::vector<const kernel_table*> candidates;
  for (const isa set : supported_isas())
    candidates.push_back(&table_of(set));
  return select_isa(candidates);
}

} // namespace troupe::kernels
