#include "tests/bench/machine_limits.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/buffer.hpp"

#if defined(__x86_64__)
#  include <immintrin.h>
#endif

namespace troupe::bench {

namespace {

using kernels::isa;

// A way of reading memory: N parts side by side, `step` bytes of each in turn, while lines `ahead` bytes
// further on are prefetched into L1, and `far` bytes further on into L2 (0: none).
struct walk_shape {
  std::size_t streams, step, ahead, far;
};

// The best distance of streams and length of a step differ by processor.
constexpr walk_shape walks[] = {{1, 1024, 0, 0},     {8, 1024, 0, 0},      {8, 64, 0, 0},
                                {8, 256, 512, 0},    {16, 64, 256, 0},     {16, 256, 512, 0},
                                {8, 256, 512, 4096}, {4, 1024, 1024, 4096}};

std::int64_t read_words(const std::byte* data, std::size_t num_bytes) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i + 8 <= num_bytes; i += 8) {
    std::int64_t value = 0;
    std::memcpy(&value, data + i, 8);
    sum += value;
  }
  return sum;
}

double multiply_add_plain(std::size_t steps, float* sink) {
  float chains[32] = {};
  for (std::size_t i = 0; i < steps; ++i)
    for (float& chain : chains)
      chain = std::fma(chain, 0.999F, 0.001F);
  std::copy_n(chains, 8, sink);
  return static_cast<double>(steps) * 32 * 2;
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) std::int64_t read_avx2(const std::byte* data, std::size_t num_bytes,
                                                       const walk_shape& walk) {
  const auto [streams, step, ahead, far] = walk;
  __m256i sum = _mm256_setzero_si256();
  const std::size_t part = num_bytes / streams / step * step;
  for (std::size_t i = 0; i < part; i += step)
    for (std::size_t s = 0; s < streams; ++s) {
      const std::byte* from = data + s * part + i;
      for (std::size_t j = 0; j < step; j += 64) {
        if (far > 0)
          _mm_prefetch(reinterpret_cast<const char*>(from + j + far), _MM_HINT_T1);
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
    for (auto& chain : chains)
      chain = _mm256_fmadd_ps(chain, a, b);
  for (std::size_t c = 1; c < 12; ++c)
    chains[0] = _mm256_add_ps(chains[0], chains[c]);
  _mm256_storeu_ps(sink, chains[0]);
  return static_cast<double>(steps) * 12 * 8 * 2;
}

// Exact products of bytes on AVX2, where VPMADDUBSW adds pairs of them in 16 bits: sums of int8 leave those
// at once (three instructions for 32 products), sums of half bytes with int8 stay there for a while (two).
__attribute__((target("avx2"))) double multiply_bytes_avx2(bool half_bytes, std::size_t steps, float* sink) {
  __m256i chains[8];
  for (auto& chain : chains)
    chain = _mm256_setzero_si256();
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(1);
  const __m256i b = _mm256_set1_epi8(-1);
  for (std::size_t i = 0; i < steps; ++i)
#  pragma GCC unroll 8
    for (auto& chain : chains) {
      __asm__("" : "+x"(a)); // may have changed: each product must be computed
      const __m256i pairs = _mm256_maddubs_epi16(a, b);
      chain = half_bytes ? _mm256_add_epi16(chain, pairs)
                         : _mm256_add_epi32(chain, _mm256_madd_epi16(pairs, ones));
    }
  for (std::size_t c = 1; c < 8; ++c)
    chains[0] = _mm256_add_epi32(chains[0], chains[c]);
  _mm256_storeu_ps(sink, _mm256_castsi256_ps(chains[0]));
  return static_cast<double>(steps) * 8 * 32 * 2;
}

__attribute__((target("avx512f"))) double multiply_add_avx512(std::size_t steps, float* sink) {
  __m512 chains[12];
  for (auto& chain : chains)
    chain = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999F);
  const __m512 b = _mm512_set1_ps(0.001F);
  for (std::size_t i = 0; i < steps; ++i)
#  pragma GCC unroll 12
    for (auto& chain : chains)
      chain = _mm512_fmadd_ps(chain, a, b);
  for (std::size_t c = 1; c < 12; ++c)
    chains[0] = _mm512_add_ps(chains[0], chains[c]);
  _mm512_storeu_ps(sink, chains[0]);
  return static_cast<double>(steps) * 12 * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) double multiply_dots(std::size_t steps, float* sink) {
  __m512 chains[12];
  for (auto& chain : chains)
    chain = _mm512_set1_ps(1.0F);
  __m512i a = _mm512_set1_epi32(0x3c003c00);
  for (std::size_t i = 0; i < steps; ++i)
#  pragma GCC unroll 12
    for (auto& chain : chains) {
      __asm__("" : "+v"(a)); // may have changed: each product must be computed
      chain = _mm512_dpbf16_ps(chain, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(a));
    }
  for (std::size_t c = 1; c < 12; ++c)
    chains[0] = _mm512_add_ps(chains[0], chains[c]);
  _mm512_storeu_ps(sink, chains[0]);
  return static_cast<double>(steps) * 12 * 32 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) double multiply_bytes_vnni(std::size_t steps, float* sink) {
  __m512i chains[12] = {};
  __m512i a = _mm512_set1_epi8(1);
  for (std::size_t i = 0; i < steps; ++i)
#  pragma GCC unroll 12
    for (auto& chain : chains) {
      __asm__("" : "+v"(a));
      chain = _mm512_dpbusd_epi32(chain, a, a);
    }
  for (std::size_t c = 1; c < 12; ++c)
    chains[0] = _mm512_add_epi32(chains[0], chains[c]);
  _mm512_storeu_ps(sink, _mm512_castsi512_ps(chains[0]));
  return static_cast<double>(steps) * 12 * 64 * 2;
}

struct tile_config {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Products of tiles that stay in registers, without loads: those would be measured, too, and cost several
// times as much while another program uses the core's other hardware thread. Tiles' registers must be named
// by constants.
#  define TROUPE_TILE_LOOP(product)                                                                          \
    for (std::size_t i = 0; i < steps; ++i) {                                                                \
      product(0, 4, 6);                                                                                      \
      product(1, 4, 7);                                                                                      \
      product(2, 5, 6);                                                                                      \
      product(3, 5, 7);                                                                                      \
    }

__attribute__((target("amx-tile,amx-bf16,amx-int8"))) double multiply_tiles(bool int8, std::size_t steps,
                                                                            const std::byte* operands) {
  const tile_config config;
  // GCC's intrinsic claims to read only eight bytes: the rest would not be written.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, operands, 64);
  _tile_loadd(5, operands, 64);
  _tile_loadd(6, operands, 64);
  _tile_loadd(7, operands, 64);
  if (int8)
    TROUPE_TILE_LOOP(_tile_dpbssd)
  else
    TROUPE_TILE_LOOP(_tile_dpbf16ps)
  _tile_release();
  return static_cast<double>(steps) * 4 * 16 * 16 * (int8 ? 64 : 32) * 2;
}

#  undef TROUPE_TILE_LOOP

std::int64_t read_memory(const std::byte* data, std::size_t num_bytes, const walk_shape& walk) {
  return kernels::is_supported(isa::avx2) ? read_avx2(data, num_bytes, walk) : read_words(data, num_bytes);
}

double multiply_add(isa set, std::size_t steps, float* sink) {
  if (set >= isa::avx512)
    return multiply_add_avx512(steps, sink);
  return kernels::is_supported(isa::avx2) ? multiply_add_avx2(steps, sink) : multiply_add_plain(steps, sink);
}

double multiply_bytes(isa set, bool half_bytes, std::size_t steps, float* sink) {
  if (set == isa::avx2)
    return multiply_bytes_avx2(half_bytes, steps, sink);
  return __builtin_cpu_supports("avx512vnni") ? multiply_bytes_vnni(steps, sink) : 0.0;
}

#else

double multiply_bytes(isa, bool, std::size_t, float*) {
  return 0.0; // no set of such a processor is `avx2` or more
}

double multiply_dots(std::size_t, float*) {
  return 0.0;
}

std::int64_t read_memory(const std::byte* data, std::size_t num_bytes, const walk_shape&) {
  return read_words(data, num_bytes);
}

double multiply_add(isa, std::size_t steps, float* sink) {
  return multiply_add_plain(steps, sink);
}

double multiply_tiles(bool, std::size_t, const std::byte*) {
  return 0.0; // no set of such a processor is `amx`
}

#endif

// Runs a loop on all threads of a pool, several times.
class calibration {
 public:
  calibration(kernels::thread_pool& pool, clockid_t clock) : pool_(pool), clock_(clock) {}

  double best_seconds(const std::function<void(std::size_t)>& work) {
    constexpr int rounds = 8;
    double best = 1e9;
    for (int i = 0; i < rounds; ++i) {
      const double begin = seconds_now(clock_);
      pool_.parallel_static(pool_.threads(), [&](unsigned, std::size_t from, std::size_t to) {
        for (std::size_t p = from; p < to; ++p)
          work(p);
      });
      best = std::min(best, seconds_now(clock_) - begin);
    }
    return best;
  }

  // `work(p)` does one thread's share and returns its number of operations.
  double rate(const std::function<double(std::size_t)>& work) {
    std::vector<double> operations(pool_.threads());
    const double seconds = best_seconds([&](std::size_t p) { operations[p] = work(p); });
    return operations[0] * pool_.threads() / seconds;
  }

 private:
  kernels::thread_pool& pool_;
  clockid_t clock_;
};

double read_rate(calibration& run, std::size_t threads) {
  const std::size_t part = (std::size_t{512} << 20U) / threads;
  kernels::buffer memory(part * threads);
  std::memset(memory.data(), 1, part * threads);
  std::vector<std::int64_t> sums(threads);
  double least = INFINITY;
  for (const auto& shape : walks)
    least = std::min(least, run.best_seconds([&](std::size_t p) {
      sums[p] = read_memory(memory.data() + p * part, part, shape);
    }));
  return static_cast<double>(part * threads) / least;
}

} // namespace

double seconds_now(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

machine_limits measure_limits(kernels::thread_pool& pool, const limits_options& options) {
  constexpr std::size_t steps = 1'000'000;
  calibration run(pool, options.clock);
  machine_limits limits;
  limits.read_bytes_per_second = read_rate(run, pool.threads());
  std::vector<float> sink(pool.threads() * std::size_t{16});
  limits.f32_flops = run.rate([&](std::size_t p) { return multiply_add(options.set, steps, &sink[p * 16]); });
  if (options.set == isa::amx) {
    const kernels::buffer operands(1024); // zeros: the speed of a tile does not depend on values
    limits.bf16_flops =
        run.rate([&](std::size_t) { return multiply_tiles(false, steps / 4, operands.data()); });
    limits.int8_ops = run.rate([&](std::size_t) { return multiply_tiles(true, steps / 4, operands.data()); });
    limits.int4_ops = limits.int8_ops; // int4 becomes int8 first
  }
  if (options.set == isa::avx512_bf16)
    limits.bf16_flops = run.rate([&](std::size_t p) { return multiply_dots(steps, &sink[p * 16]); });
  if (options.set >= isa::avx2 && options.set < isa::amx) {
    const auto bytes = [&](bool half_bytes) {
      return run.rate(
          [&](std::size_t p) { return multiply_bytes(options.set, half_bytes, steps, &sink[p * 16]); });
    };
    limits.int8_ops = bytes(false);
    limits.int4_ops = bytes(true);
  }
  return limits;
}

} // namespace troupe::bench
