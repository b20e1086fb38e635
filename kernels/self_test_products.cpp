#include <algorithm>
#include <type_traits>

#include "kernels/packed_matrix.hpp"
#include "kernels/self_test_cases.hpp"

namespace troupe::kernels::proof {

namespace {

void check_float_products(comparison& compare) {
  constexpr std::size_t blocks = 3;
  constexpr std::size_t k = blocks * 32;
  const auto panel = bfloats(1, k * 16);
  const auto panel_f32 = floats(2, k * 16);
  for (const std::size_t count : {std::size_t{1}, std::size_t{33}, k}) {
    const auto row_f32 = floats(3, k);
    const auto row_bf16 = bfloats(3, k);
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      const std::string length =
          std::string(" of ") + name_of(type) + ", " + std::to_string(count) + " values";
      const std::byte* row = type == dtype::f32 ? raw(row_f32) : raw(row_bf16);
      compare.check("pack_row_bf16" + length, k * 4,
                    [&](const kernel_table& t, float* out) { t.pack_row_bf16(row, type, count, out); });
      compare.check("pack_row_f32" + length, k * 4,
                    [&](const kernel_table& t, float* out) { t.pack_row_f32(row, type, count, out); });
    }
  }
  compare.check("expand_bf16", k * 16 * 4,
                [&](const kernel_table& t, float* out) { t.expand_bf16(raw(panel), blocks, out); });
  constexpr std::size_t panels = 7; // some side by side, and a remainder
  const auto panels_bf16 = bfloats(5, panels * blocks * 512);
  // Every register block: 1 to 12 rows, and more than one block.
  for (std::size_t rows = 1; rows <= 14; ++rows) {
    constexpr std::size_t stride = k + 16;
    const auto a = floats(4, rows * stride);
    const std::string name = ", " + std::to_string(rows) + " rows";
    compare.check("gemm bf16 direct" + name, panels * rows * 16 * 4, [&](const kernel_table& t, float* out) {
      t.bf16_direct({.a = a.data(),
                     .a_stride = stride,
                     .rows = rows,
                     .panel = raw(panels_bf16),
                     .panel_stride = blocks * 1024,
                     .panels = panels,
                     .blocks = blocks,
                     .c = out});
    });
    compare.check("gemm bf16 expanded" + name, rows * 16 * 4, [&](const kernel_table& t, float* out) {
      t.bf16_expanded(a.data(), stride, rows, panel_f32.data(), blocks, out, 16);
    });
    compare.check("gemm f32" + name, rows * 16 * 4, [&](const kernel_table& t, float* out) {
      t.f32_panel(a.data(), stride, rows, panel_f32.data(), k - 3, out, 16);
    });
  }
  // More of K than is processed at a time: one block of rows, and several.
  constexpr std::size_t long_blocks = 10;
  const auto long_panels = bfloats(6, 2 * long_blocks * 512);
  for (const std::size_t rows : {std::size_t{4}, std::size_t{7}, std::size_t{13}, std::size_t{34}}) {
    constexpr std::size_t stride = long_blocks * 32 + 16;
    const auto a = floats(7, rows * stride);
    for (const bool once : {false, true})
      compare.check(std::string("gemm bf16 ") + (once ? "widened, " : "direct, ")
                        + std::to_string(long_blocks * 32) + " of K, " + std::to_string(rows) + " rows",
                    2 * rows * 16 * 4, [&](const kernel_table& t, float* out) {
                      (once && t.bf16_widened != nullptr ? t.bf16_widened
                                                         : t.bf16_direct)({.a = a.data(),
                                                                           .a_stride = stride,
                                                                           .rows = rows,
                                                                           .panel = raw(long_panels),
                                                                           .panel_stride = long_blocks * 1024,
                                                                           .panels = 2,
                                                                           .blocks = long_blocks,
                                                                           .c = out});
                    });
  }
}

// Few rows and panels in runs, which only some sets have, against products of one run after the other.
void check_runs(comparison& compare) {
  constexpr std::size_t panels = 2;     // of a run
  constexpr std::size_t run_panels = 3; // from run to run
  for (const std::size_t blocks : {std::size_t{3}, std::size_t{10}}) {
    const std::size_t k = blocks * 32;
    const std::size_t stride = k + 16;
    const auto weights = bfloats(31, panel_runs * run_panels * blocks * 512);
    for (std::size_t rows = 1; rows <= compare.candidate().bf16_run_rows; ++rows) {
      const auto a = floats(32, rows * stride);
      const std::size_t size = panels * rows * 16;
      compare.check("gemm bf16 in runs, " + std::to_string(k) + " of K, " + std::to_string(rows) + " rows",
                    panel_runs * size * 4, [&](const kernel_table& t, float* out) {
                      panel_product product{.a = a.data(),
                                            .a_stride = stride,
                                            .rows = rows,
                                            .panel = raw(weights),
                                            .panel_stride = blocks * 1024,
                                            .panels = panels,
                                            .blocks = blocks,
                                            .c = out};
                      product.run_stride = run_panels * product.panel_stride;
                      if (t.bf16_runs != nullptr)
                        return t.bf16_runs(product);
                      for (std::size_t run = 0; run < panel_runs; ++run) {
                        t.bf16_direct(product);
                        product.panel += product.run_stride;
                        product.c += size;
                      }
                    });
    }
  }
}

void check_decoding(comparison& compare) {
  for (const std::size_t blocks : {std::size_t{3}, std::size_t{10}}) {
    const coded_panels weights(bfloats_with_exceptions(37, blocks * 512), blocks);
    for (const std::size_t first : {std::size_t{0}, std::size_t{1}})
      compare.check("decode_bf16, " + std::to_string(blocks) + " blocks from " + std::to_string(first)
                        + " on",
                    (blocks - first) * 1024, [&](const kernel_table& t, float* out) {
                      t.decode_bf16(weights.bytes.data(), blocks, first, blocks - first, bytes(out));
                    });
  }
}

// Dot products of BF16 against the portable product of the same rows, which are packed here, too. Covers
// every register block, too many rows for an unpacked panel, more of K than is reordered at a time, an odd
// number of panels, and panels in runs; weights plain or coded.
void check_dots(comparison& compare, bool coded) {
  constexpr std::size_t most_rows = 27;
  constexpr std::size_t panels = 3;     // of a run
  constexpr std::size_t run_panels = 3; // from run to run
  for (const std::size_t blocks : {std::size_t{3}, std::size_t{10}})
    for (const dtype type : {dtype::f32, dtype::bf16}) {
      const std::size_t k = blocks * 32 - 5;
      const std::size_t stride = blocks * 32 + 16;
      const auto weights = bfloats_with_exceptions(35, panel_runs * run_panels * blocks * 512);
      const coded_panels coded_weights(weights, blocks);
      const auto x_f32 = floats(36, most_rows * k);
      const auto x_bf16 = bfloats(36, most_rows * k);
      for (std::size_t rows = 1; rows <= most_rows; ++rows) {
        if (type == dtype::f32 && rows != 1)
          continue; // only packing differs
        for (const std::size_t runs : {std::size_t{1}, panel_runs}) {
          if (runs != 1 && rows > compare.candidate().dot_run_rows)
            continue;
          const std::size_t size = panels * rows * 16;
          const auto multiply = [&](const kernel_table& t, const auto* a, float* out) {
            rows_and_panels<std::remove_cvref_t<decltype(*a)>> product{.a = a,
                                                                       .a_stride = stride,
                                                                       .rows = rows,
                                                                       .panel = raw(weights),
                                                                       .panel_stride = blocks * 1024,
                                                                       .panels = panels,
                                                                       .blocks = blocks,
                                                                       .c = out};
            product.run_stride = run_panels * product.panel_stride;
            if constexpr (std::is_same_v<decltype(product), dot_product>) {
              if (coded) {
                product.panel = coded_weights.bytes.data();
                product.panel_stride = coded_weights.stride;
                product.run_stride = run_panels * product.panel_stride;
                return (runs != 1 ? t.coded_dot_runs : t.coded_dots)(product);
              }
              return (runs != 1 ? t.bf16_dot_runs : t.bf16_dots)(product);
            } else {
              for (std::size_t run = 0; run < runs; ++run) {
                t.bf16_direct(product);
                product.panel += product.run_stride;
                product.c += size;
              }
            }
          };
          compare.check(std::string(coded ? "gemm of coded dots " : "gemm of dots ") + name_of(type) + ", "
                            + std::to_string(k) + " of K, " + std::to_string(rows) + " rows, "
                            + std::to_string(runs) + " runs",
                        runs * size * 4, [&](const kernel_table& t, float* out) {
                          const auto pack = [&](auto function, auto* to) {
                            for (std::size_t r = 0; r < rows; ++r)
                              function(type == dtype::f32 ? raw(x_f32) + r * k * 4 : raw(x_bf16) + r * k * 2,
                                       type, k, to + r * stride);
                          };
                          if (t.bf16_dots == nullptr) {
                            std::vector<float> a(rows * stride);
                            pack(t.pack_row_bf16, a.data());
                            multiply(t, a.data(), out);
                          } else {
                            std::vector<bfloat16> a(rows * stride);
                            pack(t.pack_row_dots, a.data());
                            multiply(t, a.data(), out);
                          }
                        });
        }
      }
    }
}

// Rows in tiles against the portable product of the same rows. Covers every remainder of rows and panels,
// sums that start at zero and (plain weights) that continue, and more of K than stays in L1 at a time. Coded
// weights: every number of row tiles of a product.
void check_tiles(comparison& compare, bool coded) {
  constexpr std::size_t blocks = 13;
  constexpr std::size_t k = blocks * 32 - 5;
  constexpr std::size_t most_rows = 90;
  constexpr std::size_t panels = 7;
  constexpr std::size_t stride = blocks * 32;
  const auto weights =
      coded ? bfloats_with_exceptions(38, panels * blocks * 512) : bfloats(21, panels * blocks * 512);
  const coded_panels coded_weights(coded ? weights : std::vector<bfloat16>{}, blocks);
  const auto x_f32 = floats(22, most_rows * k);
  const auto x_bf16 = bfloats(22, most_rows * k);
  std::vector<float> split(most_rows * stride);
  // Operands of tiles are aligned to cache lines.
  std::vector<std::byte> memory((most_rows + 15) / 16 * blocks * 1024 + 64);
  std::byte* tiles = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;

  struct product_size {
    std::size_t rows;
    std::size_t panels;
    dtype type = dtype::bf16;
  };

  std::vector<product_size> sizes;
  if (!coded) // only packing differs
    for (const std::size_t rows : {1U, 17U, 40U, 50U, 70U})
      sizes.push_back({rows, 1, dtype::f32});
  sizes.insert(sizes.end(),
               {{1, 1}, {1, 4}, {1, panels}, {17, 1}, {17, 4}, {17, panels}, {40, 4}, {50, 4}, {70, 1}});
  if (coded)
    sizes.insert(sizes.end(), {{70, 2}, {most_rows, 1}});
  for (const auto& [rows, count, type] : sizes) {
    const auto row = [&, element = type](std::size_t r) {
      return element == dtype::f32 ? raw(x_f32) + r * k * 4 : raw(x_bf16) + r * k * 2;
    };
    const int times = coded ? 1 : 2;
    compare.check(
        std::string(coded ? "gemm in tiles coded " : "gemm in tiles ") + name_of(type) + ", "
            + std::to_string(rows) + " rows, " + std::to_string(count) + " panels",
        count * rows * 16 * 4,
        [&, num_rows = rows, num_panels = count, element = type](const kernel_table& t, float* out) {
          if (t.bf16_tiles == nullptr) {
            for (std::size_t r = 0; r < num_rows; ++r)
              t.pack_row_bf16(row(r), element, k, split.data() + r * stride);
            std::fill_n(out, num_panels * num_rows * 16, 0.0F);
            for (int i = 0; i < times; ++i)
              t.bf16_direct({.a = split.data(),
                             .a_stride = stride,
                             .rows = num_rows,
                             .panel = raw(weights),
                             .panel_stride = blocks * 1024,
                             .panels = num_panels,
                             .blocks = blocks,
                             .c = out});
            return;
          }
          for (std::size_t r = 0; r < num_rows; ++r)
            t.pack_row_tiles(row(r), element, k, tiles + r / 16 * blocks * 1024 + r % 16 * 64);
          const std::size_t padded = (num_rows + 15) / 16 * 16;
          std::vector<float> c(padded * num_panels * 16);
          tile_product product{.a = tiles,
                               .a_stride = blocks * 1024,
                               .rows = num_rows,
                               .panel = coded ? coded_weights.bytes.data() : raw(weights),
                               .panel_stride = coded ? coded_weights.stride : blocks * 1024,
                               .panels = num_panels,
                               .blocks = blocks,
                               .c = c.data(),
                               .c_stride = padded * 16};
          product.next = {product.panel, num_panels};
          for (int i = 0; i < times; ++i, product.accumulate = true)
            (coded ? t.coded_tiles : t.bf16_tiles)(product);
          for (std::size_t p = 0; p < num_panels; ++p)
            std::copy_n(c.data() + p * padded * 16, num_rows * 16, out + p * num_rows * 16);
        });
  }
}

} // namespace

void check_products(comparison& compare) {
  check_float_products(compare);
  if (compare.candidate().bf16_runs != nullptr)
    check_runs(compare);
  check_decoding(compare);
  if (compare.candidate().bf16_dots != nullptr)
    check_dots(compare, false);
  if (compare.candidate().coded_dots != nullptr)
    check_dots(compare, true);
  if (compare.candidate().bf16_tiles != nullptr)
    check_tiles(compare, false);
  if (compare.candidate().coded_tiles != nullptr)
    check_tiles(compare, true);
}

} // namespace troupe::kernels::proof
