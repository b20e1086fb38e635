// Products on AMX tiles. Included only by amx_kernels.cpp.
//
// A tile register holds 16 rows of 64 bytes. TDPBF16PS adds in the order that gemm.hpp defines (measured in
// tests/unit/kernels/amx_order_test.cpp), a packed panel's block of 32 of K is a tile in memory, and a tile's
// rows are independent: so any partition into tiles gives the same bits.
#pragma once

#include "kernels/cpu/gemm/row_tiles.hpp"
#include "kernels/cpu/prefetch/weight_fetch.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t sums_of_tile = tile_rows * 16; // FP32 or int32

/// The operand of LDTILECFG.
struct alignas(64) tile_config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};

  /// Tiles 0 to 5 (sums and rows) with `num_rows` rows, 6 and 7 (weights) with 16.
  constexpr explicit tile_config(std::size_t num_rows) {
    for (std::size_t i = 0; i < 8; ++i) {
      column_bytes[i] = 64;
      rows[i] = static_cast<std::uint8_t>(i < 6 ? num_rows : tile_rows);
    }
  }
};

/// GCC's tile intrinsics do not declare that they read memory: pending stores must be finished before a tile
/// is loaded from there.
TROUPE_INLINE void finish_stores() {
  __asm__ volatile("" ::: "memory");
}

#if !defined(TROUPE_EMULATED_TILES) // tests have their own tiles
TROUPE_INLINE void load_tile_config(const tile_config& config) {
  finish_stores();
  __asm__ volatile("ldtilecfg %0" : : "m"(config)); // GCC's intrinsic covers only its first 8 bytes
}
#endif

/// Configures the tiles during its lifetime. Every kernel has its own, so that any thread can run any kernel;
/// an unconfigured thread also saves the system 8 KiB at every switch.
class tile_session {
 public:
  /// @param last  rows of tiles 3 and 5
  explicit tile_session(std::size_t rows, std::size_t last) {
    tile_config config(rows);
    config.rows[3] = config.rows[5] = static_cast<std::uint8_t>(last);
    load_tile_config(config);
  }

  explicit tile_session(std::size_t rows) : tile_session(rows, rows) {}

  ~tile_session() { _tile_release(); }

  tile_session(const tile_session&) = delete;
  tile_session& operator=(const tile_session&) = delete;
};

/// The same for one or two tiles of rows with up to four panels: tiles 0, 1 and 4 have the rows of the first;
/// 2, 3 and 5 those of the second or, if there is only one, of the first.
class row_pair_session {
 public:
  /// @param second  rows of the second tile of rows; 0: there is only one
  row_pair_session(std::size_t first, std::size_t second) {
    tile_config config(first);
    if (second != 0)
      config.rows[2] = config.rows[3] = config.rows[5] = static_cast<std::uint8_t>(second);
    load_tile_config(config);
  }

  ~row_pair_session() { _tile_release(); }

  row_pair_session(const row_pair_session&) = delete;
  row_pair_session& operator=(const row_pair_session&) = delete;
};

// Products of BF16, or of int8 where `Integers`.
#define TROUPE_TILE_PRODUCT(c, a, b)                                                                         \
  do {                                                                                                       \
    if constexpr (Integers)                                                                                  \
      _tile_dpbssd(c, a, b);                                                                                 \
    else                                                                                                     \
      _tile_dpbf16ps(c, a, b);                                                                               \
  } while (false)

/// The product with one panel of each stream: `panel`, and those at further multiples of `distance`.
TROUPE_INLINE tile_product with_streams(const tile_product& p, std::size_t panel, std::size_t distance) {
  tile_product step = p;
  step.panel += panel * p.panel_stride;
  step.c += panel * p.c_stride;
  step.panel_stride *= distance;
  step.c_stride *= distance;
  return step;
}

/// Prefetches ahead, and loads one block of stream `s`.
TROUPE_INLINE void fetch_block(const tile_product& p, const weight_fetcher& fetcher, std::size_t s,
                               std::size_t offset) {
  const std::byte* far = fetcher(s, offset);
  const std::byte* block = p.panel + s * p.panel_stride + offset;
#pragma GCC unroll 16
  for (std::size_t line = 0; line < tile_bytes; line += 64)
    weight_fetcher::fetch_line<tile_bytes>(far + line, block + line);
}

/// Sums of one tile of rows with 1, 2 or 4 panels, one block of each panel in turn. `streamed`: prefetches
/// weights that come directly from memory; or null.
template <bool Integers, std::size_t Panels>
TROUPE_INLINE void multiply_row_tile(const tile_product& p, const weight_fetcher* streamed) {
  float* c = p.c;
  const std::size_t stride = p.panel_stride;
  const std::size_t c_stride = p.c_stride;
  if (p.accumulate) {
    _tile_loadd(0, c, 64);
    if constexpr (Panels > 1)
      _tile_loadd(1, c + c_stride, 64);
    if constexpr (Panels > 2) {
      _tile_loadd(2, c + 2 * c_stride, 64);
      _tile_loadd(3, c + 3 * c_stride, 64);
    }
  } else {
    _tile_zero(0);
    if constexpr (Panels > 1)
      _tile_zero(1);
    if constexpr (Panels > 2) {
      _tile_zero(2);
      _tile_zero(3);
    }
  }
  const auto fetch = [&](std::size_t i, std::size_t b) {
    if (streamed != nullptr)
      fetch_block(p, *streamed, i, b * tile_bytes);
  };
  for (std::size_t b = 0; b < p.blocks; ++b) {
    const std::byte* w = p.panel + b * tile_bytes;
    _tile_loadd(4, p.a + b * tile_bytes, 64);
    fetch(0, b);
    _tile_loadd(6, w, 64);
    TROUPE_TILE_PRODUCT(0, 4, 6);
    if constexpr (Panels > 1) {
      fetch(1, b);
      _tile_loadd(6, w + stride, 64);
      TROUPE_TILE_PRODUCT(1, 4, 6);
    }
    if constexpr (Panels > 2) {
      fetch(2, b);
      _tile_loadd(6, w + 2 * stride, 64);
      TROUPE_TILE_PRODUCT(2, 4, 6);
      fetch(3, b);
      _tile_loadd(6, w + 3 * stride, 64);
      TROUPE_TILE_PRODUCT(3, 4, 6);
    }
  }
  _tile_stored(0, c, 64);
  if constexpr (Panels > 1)
    _tile_stored(1, c + c_stride, 64);
  if constexpr (Panels > 2) {
    _tile_stored(2, c + 2 * c_stride, 64);
    _tile_stored(3, c + 3 * c_stride, 64);
  }
}

// Zeroes register `t`, whose content is no longer needed: a zeroed tile occupies no physical register, and a
// core that other programs use, too, has few for renaming (docs/kernels/amx.md, "Tile registers").
#define TROUPE_RELEASE_TILE(t) _tile_zero(t)

// Register `t` begins the sums of row tile `i`, with `c` or zeros. Its old content goes to `before`.
#define TROUPE_BEGIN_SUMS(t, i)                                                                              \
  do {                                                                                                       \
    if (before != nullptr)                                                                                   \
      _tile_stored(t, before + (i)*sums_of_tile, 64);                                                        \
    if (c != nullptr)                                                                                        \
      _tile_loadd(t, c + (i)*sums_of_tile, 64);                                                              \
    else                                                                                                     \
      _tile_zero(t);                                                                                         \
  } while (false)

/// Products of two or three tiles of rows, `a_stride` apart, with one panel. Sums are in 0 to 2, rows in 4,
/// weights in 6. The `Last` tile of all rows, which may have fewer rows, has its sums in 3 and rows in 5.
/// Sums begin as those at `c` (null: zeros) and stay in their registers. The old sums go to `before` (null:
/// nowhere), each tile just before its register is needed: storing it right after its last product would wait
/// for that.
template <bool Integers, std::size_t RowTiles, bool Last>
TROUPE_INLINE void multiply_row_tiles(const std::byte* a, std::size_t a_stride, const std::byte* panel,
                                      std::size_t blocks, const float* c, float* before, panel_fetch& fetch) {
  static_assert(RowTiles == 2 || RowTiles == 3);
  const auto step = [&]<bool First>(std::size_t offset) __attribute__((always_inline)) {
    const std::byte* last = a + (RowTiles - 1) * a_stride + offset;
    _tile_loadd(6, panel + offset, 64);
    _tile_loadd(4, a + offset, 64);
    if constexpr (First)
      TROUPE_BEGIN_SUMS(0, 0);
    TROUPE_TILE_PRODUCT(0, 4, 6);
    TROUPE_RELEASE_TILE(4);
    fetch.step();
    if constexpr (RowTiles > 2) {
      _tile_loadd(4, a + a_stride + offset, 64);
      if constexpr (First)
        TROUPE_BEGIN_SUMS(1, 1);
      TROUPE_TILE_PRODUCT(1, 4, 6);
      TROUPE_RELEASE_TILE(4);
      fetch.step();
    }
    if constexpr (Last) {
      _tile_loadd(5, last, 64);
      if constexpr (First)
        TROUPE_BEGIN_SUMS(3, RowTiles - 1);
      TROUPE_TILE_PRODUCT(3, 5, 6);
      TROUPE_RELEASE_TILE(5);
    } else {
      _tile_loadd(4, last, 64);
      if constexpr (First)
        TROUPE_BEGIN_SUMS(2, RowTiles - 1);
      TROUPE_TILE_PRODUCT(2, 4, 6);
      TROUPE_RELEASE_TILE(4);
    }
    TROUPE_RELEASE_TILE(6);
    fetch.step();
  };
  step.template operator()<true>(0);
  for (std::size_t offset = tile_bytes; offset < blocks * tile_bytes; offset += tile_bytes)
    step.template operator()<false>(offset);
}

/// Streams of panels that one tile of rows uses side by side.
constexpr std::size_t panel_streams = 4;

/// Up to 16 rows: limited by memory alone.
template <bool Integers>
static void multiply_few_rows(const tile_product& p) {
  const tile_session session(p.rows);
  for_each_stream_step<panel_streams>(
      p.panel, p.panel_stride, p.blocks * tile_bytes, p.panels, p.next,
      [&](auto streams, std::size_t panel, std::size_t distance, const weight_fetcher& fetcher)
          __attribute__((always_inline)) {
            multiply_row_tile<Integers, streams>(with_streams(p, panel, distance),
                                                 p.streamed ? &fetcher : nullptr);
          });
}

/// Sums of two tiles of rows with one or two panels, directly from memory: every loaded tile is used twice.
template <bool Integers, std::size_t Panels>
TROUPE_INLINE void multiply_row_pair(const tile_product& p, const weight_fetcher& fetcher) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t offset = 0; offset < p.blocks * tile_bytes; offset += tile_bytes) {
    fetch_block(p, fetcher, 0, offset);
    _tile_loadd(6, p.panel + offset, 64);
    _tile_loadd(4, p.a + offset, 64);
    TROUPE_TILE_PRODUCT(0, 4, 6);
    _tile_loadd(5, p.a + p.a_stride + offset, 64);
    TROUPE_TILE_PRODUCT(2, 5, 6);
    if constexpr (Panels > 1) {
      fetch_block(p, fetcher, 1, offset);
      _tile_loadd(6, p.panel + p.panel_stride + offset, 64);
      TROUPE_TILE_PRODUCT(1, 4, 6);
      TROUPE_TILE_PRODUCT(3, 5, 6);
    }
  }
  _tile_stored(0, p.c, 64);
  _tile_stored(2, p.c + sums_of_tile, 64);
  if constexpr (Panels > 1) {
    _tile_stored(1, p.c + p.c_stride, 64);
    _tile_stored(3, p.c + p.c_stride + sums_of_tile, 64);
  }
}

/// 17 to 32 rows, with panels directly from memory.
template <bool Integers>
static void multiply_streamed_pair(const tile_product& p) {
  const row_pair_session session(tile_rows, p.rows - tile_rows);
  for_each_stream_step<2>(
      p.panel, p.panel_stride, p.blocks * tile_bytes, p.panels, p.next,
      [&](auto streams, std::size_t panel, std::size_t distance, const weight_fetcher& fetcher)
          __attribute__((always_inline)) {
            multiply_row_pair<Integers, streams>(with_streams(p, panel, distance), fetcher);
          });
}

/// Tiles of rows that stay in L1 (24 KiB of it) during all panels.
constexpr std::size_t row_tiles_in_l1 = 24;

/// `RowTiles` tiles of rows from the `first` on with all panels, one part of K after another.
template <bool Integers, std::size_t RowTiles, bool Last>
static void multiply_row_group(const tile_product& p, std::size_t first, panel_fetch& fetch) {
  const std::size_t pieces = (p.blocks * RowTiles + row_tiles_in_l1 - 1) / row_tiles_in_l1;
  const std::size_t piece = (p.blocks + pieces - 1) / pieces;
  float* before = nullptr;
  for (std::size_t b = 0; b < p.blocks; b += piece)
    for (std::size_t i = 0; i < p.panels; ++i) {
      float* c = p.c + i * p.c_stride + first * sums_of_tile;
      multiply_row_tiles<Integers, RowTiles, Last>(p.a + first * p.a_stride + b * tile_bytes, p.a_stride,
                                                   p.panel + i * p.panel_stride + b * tile_bytes,
                                                   smaller(piece, p.blocks - b),
                                                   p.accumulate || b != 0 ? c : nullptr, before, fetch);
      before = c;
    }
  _tile_stored(0, before, 64);
  TROUPE_RELEASE_TILE(0);
  if constexpr (RowTiles > 2) {
    _tile_stored(1, before + sums_of_tile, 64);
    TROUPE_RELEASE_TILE(1);
  }
  if constexpr (Last) {
    _tile_stored(3, before + (RowTiles - 1) * sums_of_tile, 64);
  } else {
    _tile_stored(2, before + (RowTiles - 1) * sums_of_tile, 64);
    TROUPE_RELEASE_TILE(2);
  }
}

/// More rows: three and two tiles at a time, while the next weights are prefetched.
template <bool Integers>
static void multiply_many_rows(const tile_product& p) {
  const std::size_t row_tiles = (p.rows + tile_rows - 1) / tile_rows;
  const tile_session session(tile_rows, p.rows - (row_tiles - 1) * tile_rows);
  panel_fetch none;
  panel_fetch& fetch = p.fetch != nullptr ? *p.fetch : none;
  std::size_t t = 0;
  for (; row_tiles - t > 4; t += 3)
    multiply_row_group<Integers, 3, false>(p, t, fetch);
  if (row_tiles - t == 4) {
    multiply_row_group<Integers, 2, false>(p, t, fetch);
    t += 2;
  }
  if (row_tiles - t == 3)
    multiply_row_group<Integers, 3, true>(p, t, fetch);
  else
    multiply_row_group<Integers, 2, true>(p, t, fetch);
}

template <bool Integers>
static void multiply_tiles(const tile_product& p) {
  if (p.rows <= tile_rows)
    multiply_few_rows<Integers>(p);
  else if (p.rows <= 2 * tile_rows && p.streamed && !p.accumulate)
    multiply_streamed_pair<Integers>(p);
  else
    multiply_many_rows<Integers>(p);
}

static void bf16_tiles(const tile_product& p) {
  multiply_tiles<false>(p);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
