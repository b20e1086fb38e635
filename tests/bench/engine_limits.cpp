#include "tests/bench/engine_limits.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/buffer.hpp"

#if defined(__x86_64__)
#  include <immintrin.h>
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

namespace troupe::bench {

namespace {

constexpr int rounds = 8;

double best_seconds(kernels::thread_pool& pool, const std::function<void(std::size_t)>& work) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_static(pool.threads(), [&](unsigned, std::size_t from, std::size_t to) {
      for (std::size_t p = from; p < to; ++p)
        work(p);
    });
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

#if defined(__x86_64__)

// Walks `streams` parts of the memory side by side, `step` bytes of each in turn; how far apart streams
// should be and how long a step is differ by processor.
__attribute__((target("avx2"))) std::int64_t read_memory(const std::byte* data, std::size_t num_bytes,
                                                         std::size_t streams, std::size_t step,
                                                         std::size_t ahead) {
  __m256i sum = _mm256_setzero_si256();
  const std::size_t part = num_bytes / streams / step * step;
  for (std::size_t i = 0; i < part; i += step)
    for (std::size_t s = 0; s < streams; ++s) {
      const std::byte* from = data + s * part + i;
      for (std::size_t j = 0; j < step; j += 64) {
        if (ahead > 0)
          _mm_prefetch(reinterpret_cast<const char*>(from + j + ahead), _MM_HINT_T0);
        const auto* line = reinterpret_cast<const __m256i*>(from + j);
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(_mm256_loadu_si256(line), _mm256_loadu_si256(line + 1)));
      }
    }
  return _mm256_extract_epi64(sum, 0) + _mm256_extract_epi64(sum, 3);
}

// 12 chains hide the latency of two units.
__attribute__((target("avx2,fma"))) double multiply_add_avx2(std::size_t steps, float* sink) {
  __m256 chains[12];
  for (auto& chain : chains)
    chain = _mm256_set1_ps(1.0F);
  const __m256 a = _mm256_set1_ps(0.999F);
  const __m256 b = _mm256_set1_ps(0.001F);
  for (std::size_t i = 0; i < steps; ++i)
#  pragma GCC unroll 12
    for (std::size_t c = 0; c < 12; ++c)
      chains[c] = _mm256_fmadd_ps(chains[c], a, b);
  for (std::size_t c = 1; c < 12; ++c)
    chains[0] = _mm256_add_ps(chains[0], chains[c]);
  _mm256_storeu_ps(sink, chains[0]);
  return static_cast<double>(steps) * 12 * 8 * 2;
}

__attribute__((target("avx512f"))) double multiply_add_avx512(std::size_t steps, float* sink) {
  __m512 chains[12];
  for (auto& chain : chains)
    chain = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999F);
  const __m512 b = _mm512_set1_ps(0.001F);
  for (std::size_t i = 0; i < steps; ++i)
#  pragma GCC unroll 12
    for (std::size_t c = 0; c < 12; ++c)
      chains[c] = _mm512_fmadd_ps(chains[c], a, b);
  for (std::size_t c = 1; c < 12; ++c)
    chains[0] = _mm512_add_ps(chains[0], chains[c]);
  _mm512_storeu_ps(sink, chains[0]);
  return static_cast<double>(steps) * 12 * 16 * 2;
}

struct tile_config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// 2 x 2 tiles of sums: four products for four tiles loaded. Tiles' registers must be named by constants.
#  define TROUPE_TILE_LOOP(product)                                                                          \
    for (std::size_t i = 0; i < steps; ++i) {                                                                \
      const std::byte* from = operands + i % 4 * 4096;                                                       \
      _tile_loadd(4, from, 64);                                                                              \
      _tile_loadd(5, from + 1024, 64);                                                                       \
      _tile_loadd(6, from + 2048, 64);                                                                       \
      _tile_loadd(7, from + 3072, 64);                                                                       \
      product(0, 4, 6);                                                                                      \
      product(1, 4, 7);                                                                                      \
      product(2, 5, 6);                                                                                      \
      product(3, 5, 7);                                                                                      \
    }

__attribute__((target("amx-tile,amx-bf16,amx-int8"))) double multiply_tiles(bool int8, std::size_t steps,
                                                                            const std::byte* operands) {
  const tile_config config;
  // GCC's intrinsic claims to read eight bytes only: the rest would not be written.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (int8) {
    TROUPE_TILE_LOOP(_tile_dpbssd)
  } else {
    TROUPE_TILE_LOOP(_tile_dpbf16ps)
  }
  _tile_release();
  return static_cast<double>(steps) * 4 * 16 * 16 * (int8 ? 64 : 32) * 2;
}

#  undef TROUPE_TILE_LOOP

bool has_tiles() {
  if (!__builtin_cpu_supports("avx512f"))
    return false;
  unsigned a = 7;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  constexpr unsigned bf16 = 1U << 22U;
  constexpr unsigned tile = 1U << 24U;
  constexpr unsigned int8 = 1U << 25U;
  constexpr long request_permission = 0x1023; // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;
  return (d & bf16) != 0 && (d & tile) != 0 && (d & int8) != 0
         && ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

#endif

} // namespace

machine_limits measure_limits(kernels::thread_pool& pool) {
  machine_limits limits;
  const std::size_t threads = pool.threads();
  const std::size_t part = (std::size_t{512} << 20U) / threads;
  kernels::buffer memory(part * threads);
  std::memset(memory.data(), 1, part * threads);
  std::vector<std::int64_t> sums(threads);
#if defined(__x86_64__)
  struct walk {
    std::size_t streams, step, ahead;
  };

  for (const walk& w : {walk{1, 1024, 0}, walk{8, 1024, 0}, walk{8, 64, 0}, walk{8, 256, 512},
                        walk{16, 64, 256}, walk{16, 256, 512}}) {
    const double seconds = best_seconds(pool, [&](std::size_t p) {
      sums[p] = read_memory(memory.data() + p * part, part, w.streams, w.step, w.ahead);
    });
    limits.read_bytes_per_second =
        std::max(limits.read_bytes_per_second, static_cast<double>(part * threads) / seconds);
  }
  std::vector<float> sink(threads * 16);
  std::vector<double> operations(threads);
  constexpr std::size_t steps = 1'000'000;
  const auto rate = [&](const std::function<double(std::size_t)>& work) {
    const double seconds = best_seconds(pool, [&](std::size_t p) { operations[p] = work(p); });
    return operations[0] * static_cast<double>(threads) / seconds;
  };
  if (__builtin_cpu_supports("avx512f"))
    limits.f32_flops = rate([&](std::size_t p) { return multiply_add_avx512(steps, &sink[p * 16]); });
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    limits.f32_flops = rate([&](std::size_t p) { return multiply_add_avx2(steps, &sink[p * 16]); });
  if (has_tiles()) {
    const kernels::buffer operands(std::size_t{4} * 4096); // zeros: no value slows a tile down
    limits.bf16_flops = rate([&](std::size_t) { return multiply_tiles(false, steps / 4, operands.data()); });
    limits.int8_ops = rate([&](std::size_t) { return multiply_tiles(true, steps / 4, operands.data()); });
  }
#endif
  return limits;
}

} // namespace troupe::bench
