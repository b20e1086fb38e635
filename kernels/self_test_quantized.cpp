#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/buffer.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/self_test_cases.hpp"

namespace troupe::kernels::proof {

namespace {

/// FP32 rows converted for a table's own integer products.
class integer_rows {
 public:
  integer_rows(const kernel_table& table, const std::byte* rows, std::size_t rows_stride, std::size_t count,
               std::size_t k)
      : stride_(int8_row_stride(k)), memory_(count * stride_) {
    for (std::size_t r = 0; r < count; ++r)
      table.quant.quantize_row(rows + r * rows_stride, dtype::f32, k, memory_.data() + r * stride_);
  }

  const std::byte* data() const { return memory_.data(); }

  std::size_t stride() const { return stride_; }

 private:
  std::size_t stride_;
  std::vector<std::byte> memory_;
};

/// A candidate's integer product, compared with the portable one on as many rows as it takes.
struct integer_kernel {
  const char* name;
  integer_product* quant_table::*product;
  std::size_t int8_rows = any;
  std::size_t int4_rows = any;

  static constexpr std::size_t any = ~std::size_t{0};

  std::size_t most_rows(packed_format format) const {
    return format == packed_format::int8_channel ? int8_rows : int4_rows;
  }
};

/// The integer products of a table.
std::vector<integer_kernel> integer_kernels_of(const quant_table& quant) {
  std::vector<integer_kernel> kernels{{"integer gemm", &quant_table::integer},
                                      {"integer gemm in streams", &quant_table::integer_streams},
                                      {"integer gemm in groups", &quant_table::integer_groups},
                                      {"integer gemm of unpacked", &quant_table::integer_unpacked, 0},
                                      {"integer gemm in one stream", &quant_table::integer_one_stream,
                                       quant.int8_stream_rows, quant.int4_stream_rows},
                                      {"integer gemm of row tiles", &quant_table::integer_row_tiles}};
  std::erase_if(kernels, [&](const integer_kernel& kernel) { return quant.*kernel.product == nullptr; });
  return kernels;
}

void check_integers(comparison& compare, const std::string& name, const std::vector<float>& x,
                    std::size_t rows, const quant_panel& panel, std::size_t panels, std::size_t k) {
  for (const integer_kernel& kernel : integer_kernels_of(compare.candidate().quant)) {
    if (rows > kernel.most_rows(panel.format))
      continue;
    compare.check(kernel.name + name, panels * rows * 16 * 4, [&](const kernel_table& t, float* out) {
      const integer_rows quantized(t, raw(x), x.size() / rows * 4, rows, k);
      integer_product* product = t.quant.*kernel.product;
      (product != nullptr ? product : t.quant.integer)(quantized.data(), quantized.stride(), rows, panel,
                                                       panels, {}, k, out);
    });
  }
}

void check_quantized(comparison& compare) {
  constexpr std::size_t k = 160;
  constexpr std::size_t blocks = k / 32;
  constexpr std::size_t panels = 7;
  for (const packed_format format : {packed_format::int8_channel, packed_format::int4_channel,
                                     packed_format::int4_group32, packed_format::int4_group64}) {
    const auto weights = any_weights(17, format, panels * 16, k);
    const quant_panel& panel = weights.first;
    const std::string name = std::string(" ") + name_of(format);
    for (const std::size_t from : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) { // of K, in blocks
      const std::string part = name + " from block " + std::to_string(from);
      const std::size_t count = blocks - from;
      compare.check("expand" + part, count * 32 * 16 * 4,
                    [&](const kernel_table& t, float* out) { t.quant.expand(panel, from, count, out); });
      compare.check("pairs" + part, count * 32 * 16 * 2, [&](const kernel_table& t, float* out) {
        t.quant.pairs(panel, from, count, bytes(out));
      });
    }
    for (std::size_t rows = 1; rows <= 18; rows += rows < 9 ? 1 : 9) {
      constexpr std::size_t stride = k + 16;
      const auto a = floats(18, rows * stride);
      const std::string some = name + ", " + std::to_string(rows) + " rows";
      for (const std::size_t from : {std::size_t{0}, std::size_t{3}})
        compare.check("gemm" + some + " from block " + std::to_string(from), rows * 16 * 4,
                      [&](const kernel_table& t, float* out) {
                        t.quant.direct(a.data() + from * 32, stride, rows, panel, from, blocks - from, out,
                                       16);
                        t.quant.scale(panel, rows, out);
                      });
      for (const std::size_t count : {std::size_t{1}, panels})
        check_integers(compare, some + ", " + std::to_string(count) + " panels", a, rows, panel, count, k);
    }
  }
  // More of K than is processed at a time, with one, two and more blocks of rows. Rows three and four hold
  // only the largest value, so that no two products fit 16 bits.
  for (const packed_format format : {packed_format::int8_channel, packed_format::int4_channel,
                                     packed_format::int4_group32, packed_format::int4_group64}) {
    constexpr std::size_t long_k = 2048 + 96;
    constexpr std::size_t most_rows = 27;
    const auto weights = any_weights(20, format, 32, long_k);
    auto x = floats(21, most_rows * long_k);
    std::fill_n(x.begin() + 2 * long_k, long_k, 1.0F);
    std::fill_n(x.begin() + 3 * long_k, long_k, -1.0F);
    for (const std::size_t rows :
         {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{6}, most_rows}) {
      const std::vector<float> some(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(rows * long_k));
      check_integers(compare,
                     std::string(" ") + name_of(format) + ", " + std::to_string(long_k) + " of K, "
                         + std::to_string(rows) + " rows",
                     some, rows, weights.first, 2, long_k);
    }
  }
  for (const std::size_t count : {std::size_t{1}, std::size_t{37}, k}) {
    const auto row_f32 = floats(19, k);
    const auto row_bf16 = bfloats(19, k);
    const std::string length = ", " + std::to_string(count) + " values";
    // Padding between the parts of such a row is undefined.
    const auto with_row = [&](const auto& quantize) {
      return [&, quantize](const kernel_table& t, float* out) {
        std::vector<float> row(int8_row_stride(k) / sizeof(float), 0.0F);
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

// The search for scales: the integers must not depend on the set that packs.
void check_scales(comparison& compare) {
  const auto weights = floats(26, 64);
  float max = 0.0F;
  for (const float weight : weights)
    max = std::max(max, std::abs(weight));
  for (const std::size_t count : {std::size_t{32}, std::size_t{64}})
    for (int levels = 1; levels <= 20; ++levels) {
      const float scale = max / (8.0F * static_cast<float>(levels));
      compare.check("int4 scale of " + std::to_string(count), 2 * sizeof(float),
                    [&](const kernel_table& t, float* out) {
                      const int4_group_scale best = t.quant.int4_scale(weights.data(), count, max, scale);
                      out[0] = static_cast<float>(best.scale);
                      out[1] = best.error;
                    });
      compare.check("int4 error of " + std::to_string(count), 2 * sizeof(float),
                    [&](const kernel_table& t, float* out) {
                      out[0] = t.quant.int4_error(weights.data(), count, scale);
                      out[1] = t.quant.int4_error(weights.data(), count, -scale);
                    });
    }
}

// Integer products with panels in runs.
void check_integer_runs(comparison& compare) {
  constexpr std::size_t panels = 2;
  constexpr std::size_t run_panels = 3;
  for (const packed_format format : {packed_format::int8_channel, packed_format::int4_channel,
                                     packed_format::int4_group32, packed_format::int4_group64})
    for (const std::size_t k : {std::size_t{160}, std::size_t{1120}}) {
      const auto weights = any_weights(33, format, panel_runs * run_panels * 16, k);
      const quant_table& quant = compare.candidate().quant;
      const std::size_t most =
          format == packed_format::int8_channel ? quant.int8_run_rows : quant.int4_run_rows;
      for (std::size_t rows = 1; rows <= most; ++rows) {
        auto x = floats(34, rows * k);
        std::fill_n(x.begin(), k, 1.0F); // no two products of the first row fit 16 bits
        const std::size_t size = panels * rows * 16;
        compare.check(std::string("integer gemm in runs, ") + name_of(format) + ", " + std::to_string(k)
                          + " of K, " + std::to_string(rows) + " rows",
                      panel_runs * size * 4, [&](const kernel_table& t, float* out) {
                        const integer_rows quantized(t, raw(x), k * 4, rows, k);
                        const std::size_t run_stride = run_panels * weights.first.stride;
                        if (t.quant.integer_runs != nullptr)
                          return t.quant.integer_runs(quantized.data(), quantized.stride(), rows,
                                                      weights.first, panels, run_stride, {}, k, out);
                        for (std::size_t run = 0; run < panel_runs; ++run)
                          t.quant.integer(quantized.data(), quantized.stride(), rows,
                                          weights.first.on(run * run_stride), panels, {}, k,
                                          out + run * size);
                      });
      }
    }
}

// int8 rows in tiles against the portable product of the same rows.
void check_int8_tiles(comparison& compare) {
  constexpr std::size_t k = 608; // more than is unpacked at a time
  constexpr std::size_t tile_stride = int8_row_sums(k) * 16 + 64;
  constexpr std::size_t stride = int8_row_stride(k);
  constexpr std::size_t most_rows = 70;
  constexpr std::size_t columns = 48;
  const auto x_f32 = floats(25, most_rows * k);
  const auto x_bf16 = bfloats(25, most_rows * k);
  for (const packed_format format : {packed_format::int8_channel, packed_format::int4_channel,
                                     packed_format::int4_group32, packed_format::int4_group64}) {
    const auto weights = any_weights(24, format, columns, k);
    const auto panel_at = [&](std::size_t p) { return weights.first.next(p); };
    for (const dtype type : {dtype::f32, dtype::bf16})
      for (const std::size_t rows : {std::size_t{7}, std::size_t{33}, std::size_t{50}, most_rows}) {
        const auto row = [&](std::size_t r) {
          return type == dtype::f32 ? raw(x_f32) + r * k * 4 : raw(x_bf16) + r * k * 2;
        };
        constexpr std::size_t panels = columns / 16;
        compare.check(std::string("integer gemm in tiles ") + name_of(format) + " " + name_of(type) + ", "
                          + std::to_string(rows) + " rows",
                      panels * rows * 64, [&](const kernel_table& t, float* out) {
                        if (t.int8_tiles == nullptr) {
                          std::vector<std::byte> integers(rows * stride);
                          for (std::size_t r = 0; r < rows; ++r)
                            t.quant.quantize_row(row(r), type, k, integers.data() + r * stride);
                          t.quant.integer(integers.data(), stride, rows, weights.first, panels, {}, k, out);
                          return;
                        }
                        const std::size_t padded = (rows + 15) / 16 * 16;
                        buffer memory(padded / 16 * tile_stride + panels * int8_row_sums(k) * 16);
                        std::byte* a = memory.data();
                        std::byte* unpacked = a + padded / 16 * tile_stride;
                        for (std::size_t r = 0; r < rows; ++r) {
                          std::byte* tile = a + r / 16 * tile_stride;
                          t.quantize_row_tiles(row(r), type, k, tile + r % 16 * 64,
                                               reinterpret_cast<float*>(tile + int8_row_sums(k) * 16)
                                                   + r % 16);
                        }
                        std::vector<float> c(padded * columns);
                        tile_product product{.a = a,
                                             .a_stride = tile_stride,
                                             .rows = rows,
                                             .panel = weights.first.weights,
                                             .panel_stride = weights.first.stride,
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
}

} // namespace

void check_quantized_products(comparison& compare) {
  check_quantized(compare);
  check_scales(compare);
  if (compare.candidate().quant.integer_runs != nullptr)
    check_integer_runs(compare);
  if (compare.candidate().int8_tiles != nullptr)
    check_int8_tiles(compare);
}

} // namespace troupe::kernels::proof
