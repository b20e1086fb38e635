// Integer products of int8 rows with quantized weights on AMX. Included only by amx_kernels.cpp.
//
// int8 weights are TDPBSSD's operand in memory; int4 weights are unpacked to it, 64 of K at a time, while the
// previous tiles are multiplied.
#pragma once

#include "kernels/cpu/gemm/int8/int4_unpack.hpp"
#include "kernels/cpu/gemm/int8/rows.hpp"
#include "kernels/cpu/gemm/tiles_amx.hpp"
#include "kernels/cpu/prefetch/weight_fetch.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// 64 of K of an int4 panel as the int8 panel of the same integers, q · g: 1 KiB. `Streamed`: a line from
/// `far` on is prefetched for each line read.
template <bool Streamed>
TROUPE_INLINE void unpack_int4_tile(const quant_panel& panel, std::size_t k, std::byte* out,
                                    const std::byte* far) {
  const auto fetch = [&](const std::byte* from) {
    if constexpr (Streamed) {
      weight_fetcher::fetch_line<step_bytes(packed_format::int4_channel)>(far, from);
      far += 64;
    }
  };
  const std::byte* behind = nullptr;
  for (std::size_t b = k / block_k; b < (k + step_k) / block_k; ++b, out += 2 * int4_block_bytes)
    behind = unpack_int4_block<0>(panel, b, out, fetch);
  if constexpr (Streamed)
    weight_fetcher::fetch_behind<step_bytes(packed_format::int4_channel)>(behind);
}

constexpr std::size_t int8_tile_k = step_k;

/// Rows and sums of one or two tiles of rows, 64 of K after another.
struct integer_tiles {
  const std::byte* a = nullptr;
  std::size_t a_stride = 0;
  std::size_t steps = 0;
  /// Sums of panel p as int32, `c_stride` apart.
  std::int32_t* c = nullptr;
  std::size_t c_stride = 0;
};

/// One tile of rows with 1, 2 or 4 panels, with sums in tiles 0 to 3. `weights.at(step, p)` is the address of
/// 64 of K of a panel, after a call of `weights.prepare(step, p)`.
template <std::size_t Panels, class Weights>
TROUPE_INLINE void multiply_one_row_tile(const integer_tiles& t, const Weights& weights) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  weights.begin();
  for (std::size_t s = 0; s < t.steps; ++s) {
    _tile_loadd(4, t.a + s * step_k, t.a_stride);
    _tile_loadd(6, weights.at(s, 0), 64);
    _tile_dpbssd(0, 4, 6);
    weights.prepare(s + 1, 0);
    if constexpr (Panels > 1) {
      _tile_loadd(6, weights.at(s, 1), 64);
      _tile_dpbssd(1, 4, 6);
      weights.prepare(s + 1, 1);
    }
    if constexpr (Panels > 2) {
      _tile_loadd(6, weights.at(s, 2), 64);
      _tile_dpbssd(2, 4, 6);
      weights.prepare(s + 1, 2);
      _tile_loadd(6, weights.at(s, 3), 64);
      _tile_dpbssd(3, 4, 6);
      weights.prepare(s + 1, 3);
    }
  }
  _tile_stored(0, t.c, 64);
  if constexpr (Panels > 1)
    _tile_stored(1, t.c + t.c_stride, 64);
  if constexpr (Panels > 2) {
    _tile_stored(2, t.c + 2 * t.c_stride, 64);
    _tile_stored(3, t.c + 3 * t.c_stride, 64);
  }
}

/// Two tiles of rows with `Panels` ≤ 2 panels: every loaded tile is used twice.
template <std::size_t Panels, class Weights>
TROUPE_INLINE void multiply_two_row_tiles(const integer_tiles& t, const Weights& weights) {
  const std::byte* a_second = t.a + tile_rows * t.a_stride;
  std::int32_t* c_second = t.c + t.c_stride;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  weights.begin();
  for (std::size_t s = 0; s < t.steps; ++s) {
    _tile_loadd(4, t.a + s * step_k, t.a_stride);
    _tile_loadd(6, weights.at(s, 0), 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(5, a_second + s * step_k, t.a_stride);
    _tile_dpbssd(2, 5, 6);
    weights.prepare(s + 1, 0);
    if constexpr (Panels > 1) {
      _tile_loadd(6, weights.at(s, 1), 64);
      _tile_dpbssd(1, 4, 6);
      _tile_dpbssd(3, 5, 6);
      weights.prepare(s + 1, 1);
    }
  }
  _tile_stored(0, t.c, 64);
  _tile_stored(2, t.c + sums_of_tile, 64);
  if constexpr (Panels > 1) {
    _tile_stored(1, c_second, 64);
    _tile_stored(3, c_second + sums_of_tile, 64);
  }
}

/// int8 panels, used directly.
template <std::size_t Panels>
struct lying_weights {
  const std::byte* first;
  std::size_t stride;
  weight_fetcher fetcher;

  inline __attribute__((always_inline)) void begin() const {}

  inline __attribute__((always_inline)) void prepare(std::size_t, std::size_t) const {}

  inline __attribute__((always_inline)) const std::byte* at(std::size_t s, std::size_t p) const {
    const std::byte* fetch = fetcher(p, s * 1024);
    const std::byte* tile = first + p * stride + s * 1024;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 1024; i += 64)
      weight_fetcher::fetch_line<1024>(fetch + i, tile + i);
    return tile;
  }
};

/// int4 panels: a panel's tile for the next step is unpacked after its present product. If all four were
/// unpacked together, the next tile loads would wait for the stores to reach the cache.
template <std::size_t Panels>
struct unpacked_weights {
  static constexpr std::size_t num_bytes = 2 * Panels * 1024;

  const quant_panel& first;
  weight_fetcher fetcher;
  std::size_t steps;
  std::byte* memory; // num_bytes

  inline __attribute__((always_inline)) void begin() const {
    for (std::size_t p = 0; p < Panels; ++p)
      prepare(0, p);
  }

  inline __attribute__((always_inline)) void prepare(std::size_t s, std::size_t p) const {
    if (s < steps)
      unpack_int4_tile<true>(first.next(p), s * step_k, place(s, p), fetcher(p, s * 512));
    finish_stores();
  }

  inline __attribute__((always_inline)) const std::byte* at(std::size_t s, std::size_t p) const {
    return place(s, p);
  }

 private:
  inline __attribute__((always_inline)) std::byte* place(std::size_t s, std::size_t p) const {
    return memory + (s % 2 * Panels + p) * 1024;
  }
};

/// Up to 32 rows (`two`: more than 16) with `Panels` panels, all of K.
template <std::size_t Panels>
TROUPE_INLINE void multiply_integer_panels(const integer_tiles& t, bool two, const quant_panel& first,
                                           const weight_fetcher& fetcher) {
  const auto run = [&](const auto& weights) __attribute__((always_inline)) {
    if constexpr (Panels <= 2) {
      if (two) {
        multiply_two_row_tiles<Panels>(t, weights);
        return;
      }
    }
    multiply_one_row_tile<Panels>(t, weights);
  };
  if (first.format == packed_format::int8_channel) {
    run(lying_weights<Panels>{first.weights, first.stride, fetcher});
    return;
  }
  alignas(64) std::byte memory[unpacked_weights<Panels>::num_bytes];
  run(unpacked_weights<Panels>{first, fetcher, t.steps, memory});
}

static void amx_integer(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& first,
                        std::size_t panels, const upcoming_panels& next, std::size_t k, float* c) {
  const std::size_t c_stride = rows * 16;
  auto* sums = reinterpret_cast<std::int32_t*>(c);
  for (std::size_t row = 0; row < rows; row += 2 * tile_rows) {
    const std::size_t one = smaller(tile_rows, rows - row);
    const std::size_t second = smaller(tile_rows, rows - row - one);
    const row_pair_session session(one, second);
    const auto step = [&](auto streams, std::size_t panel, std::size_t distance, weight_fetcher fetcher)
        __attribute__((always_inline)) {
      quant_panel stream = first.next(panel);
      stream.stride *= distance;
      fetcher.with_scales(stream.layout);
      multiply_integer_panels<streams>({a + row * a_stride, a_stride, int8_row_sums(k) / step_k,
                                        sums + panel * c_stride + row * 16, distance * c_stride},
                                       second != 0, stream, fetcher);
    };
    const std::size_t bytes = first.weight_bytes();
    if (second == 0)
      for_each_stream_step<4>(first.weights, first.stride, bytes, panels, next, step);
    else
      for_each_stream_step<2>(first.weights, first.stride, bytes, panels, next, step);
  }
  finish_stores();
  for (std::size_t p = 0; p < panels; ++p)
    for (std::size_t r = 0; r < rows; ++r) {
      float* to = c + p * c_stride + r * 16;
      store_integer_result(to, _mm512_loadu_si512(to), a + r * a_stride, k, first.next(p).scales);
    }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
