// Products of a few rows with one panel of quantized weights. Included only by the kernels of each
// instruction set.
#pragma once

#include "kernels/cpu/gemm/fma.hpp"
#include "kernels/cpu/simd/int_simd.hpp"
#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/quant_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t int8_block_bytes = block_k * 16;

/// Unpacks 4 (int8) or 8 (int4) of K of `lanes` columns and calls use(k, weights) for each, in order.
struct int8_weights {
  static constexpr std::size_t step = 4;

  TROUPE_INLINE const std::byte* block(const quant_panel& panel, std::size_t b) {
    return panel.weights + b * int8_block_bytes;
  }

  TROUPE_INLINE int8_weights at(const quant_panel&, std::size_t, std::size_t) { return {}; }

  template <class Use>
  __attribute__((always_inline)) void unpack(const std::byte* from, const Use& use) const {
    const vi bytes = load_pairs(from);
    use(0, top_byte(shift_left<24>(bytes)));
    use(1, top_byte(mask_top_byte(shift_left<16>(bytes))));
    use(2, top_byte(mask_top_byte(shift_left<8>(bytes))));
    use(3, top_byte(mask_top_byte(bytes)));
  }
};

struct int4_weights {
  static constexpr std::size_t step = 8;

  TROUPE_INLINE const std::byte* block(const quant_panel& panel, std::size_t b) {
    return panel.int4_block(b);
  }

  vf scale;  // g
  vf offset; // −(2²³ + 8) g: 24 significant bits at most, exact

  TROUPE_INLINE int4_weights at(const quant_panel& panel, std::size_t block, std::size_t column) {
    const vf g = panel.has_groups() ? load_int8(panel.group_scales_of(block) + column) : set1(1.0F);
    return {g, mul(g, set1(-8388616.0F))};
  }

  template <int Shift, class Use>
  __attribute__((always_inline)) void one(vi bytes, std::size_t k, const Use& use) const {
    // The half byte as the last bits of 2²³ + u; both product and sum are exact.
    use(k, fma(low_half_byte_float(shift_right<Shift>(bytes)), scale, offset));
  }

  template <class Use>
  __attribute__((always_inline)) void unpack(const std::byte* from, const Use& use) const {
    const vi bytes = load_pairs(from);
    one<0>(bytes, 0, use);
    one<8>(bytes, 1, use);
    one<16>(bytes, 2, use);
    one<24>(bytes, 3, use);
    one<4>(bytes, 4, use);
    one<12>(bytes, 5, use);
    one<20>(bytes, 6, use);
    one<28>(bytes, 7, use);
  }
};

template <class Weights>
static void expand_quantized(const quant_panel& panel, std::size_t first_block, std::size_t blocks,
                             float* out) {
  for (std::size_t b = first_block; b < first_block + blocks; ++b) {
    for (std::size_t column = 0; column < 16; column += lanes) {
      const Weights weights = Weights::at(panel, b, column);
      const std::byte* from = Weights::block(panel, b) + column * 4;
#pragma GCC unroll 8
      for (std::size_t k = 0; k < block_k; k += Weights::step, from += 64)
        weights.unpack(from, [&](std::size_t i, vf w) {
          store(out + (i % 2 * half_block + (k + i) / 2) * 16 + column, w);
        });
    }
    out += block_k * 16;
  }
}

static void expand_panel(const quant_panel& panel, std::size_t first_block, std::size_t blocks, float* out) {
  if (panel.format == packed_format::int8_channel)
    expand_quantized<int8_weights>(panel, first_block, blocks, out);
  else
    expand_quantized<int4_weights>(panel, first_block, blocks, out);
}

template <class Weights>
static void pair_quantized(const quant_panel& panel, std::size_t first_block, std::size_t blocks,
                           std::byte* out) {
  for (std::size_t b = first_block; b < first_block + blocks; ++b) {
    for (std::size_t column = 0; column < 16; column += lanes) {
      const Weights weights = Weights::at(panel, b, column);
      const std::byte* from = Weights::block(panel, b) + column * 4;
#pragma GCC unroll 8
      for (std::size_t k = 0; k < block_k; k += Weights::step, from += 64) {
        vf even{};
        weights.unpack(from, [&](std::size_t i, vf w) {
          if (i % 2 == 0)
            even = w;
          else
            store_pairs(out + ((k + i) / 2 * 16 + column) * 4, even, w);
        });
      }
    }
    out += panel_block_bytes;
  }
}

static void pair_panel(const quant_panel& panel, std::size_t first_block, std::size_t blocks,
                       std::byte* out) {
  if (panel.format == packed_format::int8_channel)
    pair_quantized<int8_weights>(panel, first_block, blocks, out);
  else
    pair_quantized<int4_weights>(panel, first_block, blocks, out);
}

template <class Weights>
struct quant_direct_kernel {
  template <std::size_t Rows, std::size_t Columns>
  TROUPE_INLINE void columns(const float* a, std::size_t a_stride, const quant_panel& panel,
                             std::size_t column, std::size_t first_block, std::size_t blocks, float* c,
                             std::size_t c_stride) {
    for (std::size_t b = first_block; b < first_block + blocks; ++b) {
      vf even[Rows][Columns];
      vf odd[Rows][Columns];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
        for (std::size_t j = 0; j < Columns; ++j)
          even[r][j] = odd[r][j] = set1(0.0F);
      Weights weights[Columns];
#pragma GCC unroll 16
      for (std::size_t j = 0; j < Columns; ++j)
        weights[j] = Weights::at(panel, b, column + j * lanes);
      const std::byte* from = Weights::block(panel, b) + column * 4;
#pragma GCC unroll 2
      for (std::size_t k = 0; k < block_k; k += Weights::step, from += 64)
#pragma GCC unroll 16
        for (std::size_t j = 0; j < Columns; ++j)
          weights[j].unpack(from + j * lanes * 4, [&](std::size_t i, vf w) {
            const float* x = a + i % 2 * half_block + (k + i) / 2;
#pragma GCC unroll 16
            for (std::size_t r = 0; r < Rows; ++r)
              if (i % 2 == 0)
                even[r][j] = fma(set1(x[r * a_stride]), w, even[r][j]);
              else
                odd[r][j] = fma(set1(x[r * a_stride]), w, odd[r][j]);
          });
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 16
        for (std::size_t j = 0; j < Columns; ++j) {
          float* to = c + r * c_stride + column + j * lanes;
          store(to, add(load(to), add(even[r][j], odd[r][j])));
        }
      a += block_k;
    }
  }

  template <std::size_t Rows>
  TROUPE_INLINE void run(const float* a, std::size_t a_stride, const quant_panel& panel,
                         std::size_t first_block, std::size_t blocks, float* c, std::size_t c_stride) {
    constexpr std::size_t wide = Rows * parts <= max_row_block / 2 ? parts : 1;
    for (std::size_t j = 0; j < parts; j += wide)
      columns<Rows, wide>(a, a_stride, panel, j * lanes, first_block, blocks, c, c_stride);
  }
};

template <class Weights>
static void direct_quantized(const float* a, std::size_t a_stride, std::size_t rows, const quant_panel& panel,
                             std::size_t first_block, std::size_t blocks, float* c, std::size_t c_stride) {
  using kernel = quant_direct_kernel<Weights>;
  constexpr std::size_t most = lanes == 16 ? 8 : 4;
  std::size_t row_blocks = (rows + most - 1) / most;
  for (std::size_t row = 0; row < rows; --row_blocks) {
    const std::size_t count = (rows - row + row_blocks - 1) / row_blocks;
    const float* x = a + row * a_stride;
    float* y = c + row * c_stride;
    switch (count) {
#define TROUPE_ROWS(n)                                                                                       \
  case n:                                                                                                    \
    kernel::template run<n>(x, a_stride, panel, first_block, blocks, y, c_stride);                           \
    break;
      TROUPE_ROWS(1)
      TROUPE_ROWS(2)
      TROUPE_ROWS(3)
      TROUPE_ROWS(4)
#if defined(TROUPE_ISA_AVX512)
      TROUPE_ROWS(5)
      TROUPE_ROWS(6)
      TROUPE_ROWS(7)
      TROUPE_ROWS(8)
#endif
#undef TROUPE_ROWS
    default:
      break;
    }
    row += count;
  }
}

static void direct_panel(const float* a, std::size_t a_stride, std::size_t rows, const quant_panel& panel,
                         std::size_t first_block, std::size_t blocks, float* c, std::size_t c_stride) {
  if (panel.format == packed_format::int8_channel)
    direct_quantized<int8_weights>(a, a_stride, rows, panel, first_block, blocks, c, c_stride);
  else
    direct_quantized<int4_weights>(a, a_stride, rows, panel, first_block, blocks, c, c_stride);
}

static void scale_panel(const quant_panel& panel, std::size_t rows, float* c) {
  const v16 unit = splat(panel.format == packed_format::int8_channel ? 0x1p-24F : 1.0F);
  const v16 scales = mul(load16(panel.scales), unit); // a power of two: exact
  for (std::size_t r = 0; r < rows; ++r, c += 16)
    store16(c, mul(load16(c), scales));
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
