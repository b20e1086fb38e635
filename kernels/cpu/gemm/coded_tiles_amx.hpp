// Products of BF16 on AMX tiles with weights whose exponents are coded. Included only by amx_kernels.cpp.
//
// A tile register loads only from memory. So vectors decode weights into L1, block by block, while previously
// decoded tiles are multiplied on other units. The coded bytes, which limit the speed, are a quarter fewer
// (docs/kernels/amx.md, "Coded exponents").
#pragma once

#include "kernels/cpu/gemm/coded_decode.hpp"
#include "kernels/cpu/gemm/tiles_amx.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Adds the exceptions of a block that was decoded to `to`. Not inlined, so that loops over blocks stay
/// small.
__attribute__((noinline)) static const std::uint32_t* patch_block(const std::uint32_t* exception,
                                                                  std::size_t block, std::byte* to) {
  return patch_pairs(exception, block, to);
}

/// Prefetches lines into L2.
TROUPE_INLINE void fetch_lines(const std::byte* from, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += coded_line_bytes)
    _mm_prefetch(reinterpret_cast<const char*>(from + line), _MM_HINT_T1);
}

/// Decodes eight of K into `to`, while those at `far` are fetched from memory.
TROUPE_INLINE void decode_fetching(const exponent_table& table, const std::byte* group, const std::byte* far,
                                   std::byte* to) {
#pragma GCC unroll 3
  for (std::size_t line = 0; line < coded_group_bytes; line += coded_line_bytes)
    weight_fetcher::fetch_line<coded_block_bytes>(far + line, group + line);
  decode_group(table, group, to);
}

/// Decodes 32 of K, without exceptions.
TROUPE_INLINE void decode_block(const exponent_table& table, const std::byte* block, const std::byte* far,
                                std::byte* to) {
#pragma GCC unroll 4
  for (std::size_t g = 0; g < groups_of_block; ++g)
    decode_fetching(table, block + g * coded_group_bytes, far + g * coded_group_bytes,
                    to + g * decoded_group_bytes);
}

/// Sums of one or two tiles of rows with `Panels` adjacent coded panels, from memory: sums of panel p are in
/// tile p, those of the second tile of rows in tile 2 + p.
template <std::size_t RowTiles, std::size_t Panels>
TROUPE_INLINE void multiply_coded_streams(const tile_product& p, const weight_fetcher& fetcher) {
  static_assert(RowTiles * Panels <= 4);
  alignas(64) std::byte tiles[2][Panels][tile_bytes];
  const std::uint32_t* exceptions[Panels];
  const std::size_t header = coded_header_bytes(p.blocks);
  const auto decode = [&](std::size_t s, std::size_t b) __attribute__((always_inline)) {
    const std::byte* panel = p.panel + s * p.panel_stride;
    const std::size_t offset = header + b * coded_block_bytes;
    const std::byte* far = fetcher(s, offset);
    std::byte* to = tiles[b % 2][s];
    decode_block(exponent_table(panel), panel + offset, far, to);
    if (block_of(*exceptions[s]) == b) [[unlikely]]
      exceptions[s] = patch_block(exceptions[s], b, to);
    finish_stores();
  };
  const auto tile = [&](std::size_t s, std::size_t b) { return tiles[b % 2][s]; };
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
#pragma GCC unroll 4
  for (std::size_t s = 0; s < Panels; ++s) {
    exceptions[s] = exceptions_from(p.panel + s * p.panel_stride, 0);
    fetch_lines(fetcher(s, 0), header); // the prefetch for the first block begins this much further on
    decode(s, 0);
  }
  for (std::size_t b = 0; b < p.blocks; ++b) {
    const bool more = b + 1 < p.blocks;
    const std::byte* a = p.a + b * tile_bytes;
    _tile_loadd(4, a, 64);
    if constexpr (RowTiles > 1)
      _tile_loadd(5, a + p.a_stride, 64);
    _tile_loadd(6, tile(0, b), 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (RowTiles > 1)
      _tile_dpbf16ps(2, 5, 6);
    if (more)
      decode(0, b + 1);
    if constexpr (Panels > 1) {
      _tile_loadd(6, tile(1, b), 64);
      _tile_dpbf16ps(1, 4, 6);
      if constexpr (RowTiles > 1)
        _tile_dpbf16ps(3, 5, 6);
      if (more)
        decode(1, b + 1);
    }
    if constexpr (Panels > 2) {
      _tile_loadd(6, tile(2, b), 64);
      _tile_dpbf16ps(2, 4, 6);
      if (more)
        decode(2, b + 1);
      _tile_loadd(6, tile(3, b), 64);
      _tile_dpbf16ps(3, 4, 6);
      if (more)
        decode(3, b + 1);
    }
  }
  _tile_stored(0, p.c, 64);
  if constexpr (RowTiles > 1)
    _tile_stored(2, p.c + sums_of_tile, 64);
  if constexpr (Panels > 1) {
    _tile_stored(1, p.c + p.c_stride, 64);
    if constexpr (RowTiles > 1)
      _tile_stored(3, p.c + p.c_stride + sums_of_tile, 64);
  }
  if constexpr (Panels > 2) {
    _tile_stored(2, p.c + 2 * p.c_stride, 64);
    _tile_stored(3, p.c + 3 * p.c_stride, 64);
  }
}

// Many rows are multiplied with runs of blocks: one run of each panel in turn, then the next ones of K. Each
// is decoded into L1 while the previous one is multiplied.

/// A run of a panel's blocks.
struct coded_run {
  const std::byte* panel;
  const std::byte* weights;
  std::size_t first; // of K, in blocks
  std::size_t blocks;
};

/// The runs of a product in their order, followed by the first ones of the next product.
class run_order {
 public:
  /// @param blocks  of a run
  __attribute__((always_inline)) run_order(const tile_product& p, std::size_t blocks)
      : p_(p), blocks_(blocks), header_(coded_header_bytes(p.blocks)), panel_(p.panel), left_(p.panels) {}

  /// The current run; at the end one without blocks, at an address that may still be prefetched.
  inline __attribute__((always_inline)) coded_run run() const {
    return {panel_, panel_ + header_ + first_ * coded_block_bytes, first_,
            left_ == 0 ? 0 : smaller(blocks_, p_.blocks - first_)};
  }

  /// Whether the run belongs to the next product.
  bool behind() const { return behind_; }

  inline __attribute__((always_inline)) void advance() {
    if (left_ == 0)
      return;
    panel_ += p_.panel_stride;
    if (--left_ != 0)
      return;
    first_ += blocks_;
    left_ = p_.panels;
    panel_ = p_.panel;
    if (first_ < p_.blocks && !behind_)
      return;
    first_ = 0;
    left_ = behind_ ? 0 : p_.next.count;
    if (left_ != 0)
      panel_ = p_.next.first;
    behind_ = true;
  }

 private:
  const tile_product& p_;
  std::size_t blocks_;
  std::size_t header_;
  const std::byte* panel_;
  std::size_t first_ = 0;
  std::size_t left_; // panels, the present one included, until the next part of K
  bool behind_ = false;
};

static void patch_run(const coded_run& run, std::byte* decoded) {
  const std::uint32_t* exception = exceptions_from(run.panel, run.first);
  while (block_of(*exception) < run.first + run.blocks) {
    const std::size_t block = block_of(*exception);
    exception = patch_block(exception, block, decoded + (block - run.first) * tile_bytes);
  }
}

// Applies `operation(t)` to the `RowTiles` tiles of rows. Registers are named by literals.
#define TROUPE_FOR_ROW_TILES(operation)                                                                      \
  do {                                                                                                       \
    operation(0);                                                                                            \
    operation(1);                                                                                            \
    operation(2);                                                                                            \
    if constexpr (RowTiles > 3)                                                                              \
      operation(3);                                                                                          \
    if constexpr (RowTiles > 4)                                                                              \
      operation(4);                                                                                          \
    if constexpr (RowTiles > 5)                                                                              \
      operation(5);                                                                                          \
  } while (false)

/// Multiplies three to six tiles of rows with a decoded run, while the next one is decoded. Sums are in 0 to
/// 5, rows in 6, weights in 7.
template <std::size_t RowTiles>
TROUPE_INLINE void multiply_run(const tile_product& p, const coded_run& run, const std::byte* decoded,
                                float* c, const coded_run& next, const std::byte* far, std::byte* to) {
#define TROUPE_LOAD_SUMS(t) _tile_loadd(t, c + (t)*sums_of_tile, 64)
#define TROUPE_STORE_SUMS(t) _tile_stored(t, c + (t)*sums_of_tile, 64)
  // Each product has one of the four groups of a block beside it; with three tiles the third product has two.
#define TROUPE_COLUMN_PRODUCT(t)                                                                             \
  do {                                                                                                       \
    _tile_loadd(6, a + (t)*p.a_stride, 64);                                                                  \
    _tile_dpbf16ps(t, 6, 7);                                                                                 \
    if constexpr (Decoding && (t) < groups_of_block)                                                         \
      decode(t);                                                                                             \
    if constexpr (Decoding && RowTiles == 3 && (t) == 2)                                                     \
      decode(3);                                                                                             \
  } while (false)
  if (run.first == 0)
    TROUPE_FOR_ROW_TILES(_tile_zero);
  else
    TROUPE_FOR_ROW_TILES(TROUPE_LOAD_SUMS);
  const exponent_table table(next.panel);
  const std::byte* a = p.a + run.first * tile_bytes;
  const std::byte* group = next.weights;
  const auto blocks = [&]<bool Decoding>(std::size_t count) __attribute__((always_inline)) {
    const auto decode = [&](std::size_t g) __attribute__((always_inline)) {
      const std::size_t at = g * coded_group_bytes;
      decode_fetching(table, group + at, far + at, to + g * decoded_group_bytes);
    };
    for (std::size_t b = 0; b < count; ++b, a += tile_bytes, decoded += tile_bytes) {
      _tile_loadd(7, decoded, 64);
      TROUPE_FOR_ROW_TILES(TROUPE_COLUMN_PRODUCT);
      if constexpr (Decoding) {
        group += coded_block_bytes;
        far += coded_block_bytes;
        to += tile_bytes;
        finish_stores();
      }
    }
  };
  const std::size_t both = smaller(run.blocks, next.blocks);
  blocks.template operator()<true>(both);
  blocks.template operator()<false>(run.blocks - both);
  for (std::size_t b = both; b < next.blocks; ++b)
    decode_block(table, next.weights + b * coded_block_bytes, far + (b - both) * coded_block_bytes,
                 to + (b - both) * tile_bytes);
  TROUPE_FOR_ROW_TILES(TROUPE_STORE_SUMS);
#undef TROUPE_COLUMN_PRODUCT
#undef TROUPE_STORE_SUMS
#undef TROUPE_LOAD_SUMS
}

#undef TROUPE_FOR_ROW_TILES

/// 33 to 96 rows.
template <std::size_t RowTiles>
static void multiply_coded_runs(const tile_product& p) {
  // Bounds a run's rows to 24 KiB and, if K is a power of two, spreads them over all of L1.
  constexpr std::size_t run_blocks = RowTiles > 3 ? 4 : 6;
  constexpr std::size_t runs_ahead = 3;
  const tile_session session(tile_rows);
  alignas(4096) std::byte decoded[2][run_blocks * tile_bytes];
  run_order order(p, run_blocks);
  run_order ahead = order;
  for (std::size_t i = 0; i < runs_ahead; ++i)
    ahead.advance();
  const auto fetched = [&]() __attribute__((always_inline)) {
    const coded_run far = ahead.run();
    if (far.first == 0)
      fetch_lines(far.panel, static_cast<std::size_t>(far.weights - far.panel));
    ahead.advance();
    return far.weights;
  };
  coded_run next = order.run();
  const std::byte* far = fetched();
  for (std::size_t b = 0; b < next.blocks; ++b)
    decode_block(exponent_table(next.panel), next.weights + b * coded_block_bytes,
                 far + b * coded_block_bytes, decoded[0] + b * tile_bytes);
  std::size_t panel = 0;
  for (std::size_t i = 0; !order.behind(); ++i) {
    patch_run(next, decoded[i % 2]);
    finish_stores();
    const coded_run run = next;
    order.advance();
    next = order.run();
    if (order.behind())
      next.blocks = 0; // the run belongs to the next product
    multiply_run<RowTiles>(p, run, decoded[i % 2], p.c + panel * p.c_stride, next, fetched(),
                           decoded[(i + 1) % 2]);
    panel = panel + 1 == p.panels ? 0 : panel + 1;
  }
}

/// The product of rows in tiles with coded panels from memory, `kernel_table::coded_tiles`.
static void coded_tiles(const tile_product& p) {
  switch ((p.rows + tile_rows - 1) / tile_rows) {
  case 1:
  case 2: {
    const std::size_t second = p.rows > tile_rows ? p.rows - tile_rows : 0;
    const row_pair_session session(second != 0 ? tile_rows : p.rows, second);
    const std::size_t bytes = coded_panel_bytes(p.blocks);
    if (second == 0)
      for_each_stream_step<4>(
          p.panel, p.panel_stride, bytes, p.panels, p.next,
          [&](auto streams, std::size_t panel, std::size_t distance, const weight_fetcher& fetcher)
              __attribute__((always_inline)) {
                multiply_coded_streams<1, streams>(with_streams(p, panel, distance), fetcher);
              });
    else
      for_each_stream_step<2>(
          p.panel, p.panel_stride, bytes, p.panels, p.next,
          [&](auto streams, std::size_t panel, std::size_t distance, const weight_fetcher& fetcher)
              __attribute__((always_inline)) {
                multiply_coded_streams<2, streams>(with_streams(p, panel, distance), fetcher);
              });
    break;
  }
  case 3:
    multiply_coded_runs<3>(p);
    break;
  case 4:
    multiply_coded_runs<4>(p);
    break;
  case 5:
    multiply_coded_runs<5>(p);
    break;
  default:
    multiply_coded_runs<6>(p);
    break;
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
