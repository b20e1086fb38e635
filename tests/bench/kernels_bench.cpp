// Each kernel against its floor: weight bytes over the memory bandwidth, multiply-adds over the peak of the
// unit that does them (FP32 FMA; AMX with its loads for BF16 products where the set is amx), all measured in
// the same run. Prints a table, and the same as JSON with --json FILE.
//
//   kernels_bench [--threads N] [--isa NAME] [--rounds N] [--filter TEXT]
//   [--clock wall|cpu]
//                 [--json FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#if defined(__x86_64__)
#  include <immintrin.h>
#endif

#include "kernels/attention.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/sampling.hpp"
#include "kernels/self_test.hpp"

namespace {

using namespace troupe::kernels;

// Weights of a round: servers have L3 caches of hundreds of MiB.
constexpr std::size_t beyond_caches = std::size_t{768} << 20;

struct settings {
  unsigned threads = 0;
  std::optional<isa> set;
  int rounds = 15;
  std::string filter;
  std::string json;
};

struct result {
  std::string name;
  double microseconds; // median of the rounds, per call
  double gigabytes;    // weight and cache bytes read per second
  double gigaflops;    // 2 per multiply-add
  double floor_microseconds;
};

// With --clock cpu --threads 1: the thread's processor time, which other
// processes on the same cores disturb less.
bool cpu_clock = false;

double now() {
  timespec t{};
  ::clock_gettime(cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_of(const std::function<void()>& work) {
  const double begin = now();
  work();
  return now() - begin;
}

double median_seconds(int rounds, const std::function<void()>& work) {
  work(); // grows scratch, wakes threads
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i)
    times.push_back(seconds_of(work));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

#if defined(__x86_64__)
// Reads with 8 streams 1 MiB apart, 256 bytes of each in turn.
__attribute__((target("avx2"))) long long read_memory(const std::byte* data, std::size_t num_bytes) {
  constexpr std::size_t streams = 8;
  __m256i sum = _mm256_setzero_si256();
  const std::size_t part = num_bytes / streams;
  for (std::size_t i = 0; i + 1024 <= part; i += 1024)
    for (std::size_t s = 0; s < streams; ++s) {
      const auto* from = reinterpret_cast<const __m256i*>(data + s * part + i);
      for (std::size_t j = 0; j < 32; ++j)
        sum = _mm256_add_epi64(sum, _mm256_loadu_si256(from + j));
    }
  return _mm256_extract_epi64(sum, 0) + _mm256_extract_epi64(sum, 3);
}

// 12 chains hide the latency of two units; return floating-point operations.
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
  __m256 sum = chains[0];
  for (std::size_t c = 1; c < 12; ++c)
    sum = _mm256_add_ps(sum, chains[c]);
  _mm256_storeu_ps(sink, sum);
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
  __m512 sum = chains[0];
  for (std::size_t c = 1; c < 12; ++c)
    sum = _mm512_add_ps(sum, chains[c]);
  _mm512_storeu_ps(sink, sum);
  return static_cast<double>(steps) * 12 * 16 * 2;
}

double multiply_add(isa set, std::size_t steps, float* sink) {
  return set >= isa::avx512 ? multiply_add_avx512(steps, sink) : multiply_add_avx2(steps, sink);
}

// Tile products with every operand loaded from L1, two tiles by two: what a product can reach at best.
__attribute__((target("amx-tile,amx-bf16"))) double multiply_tiles(std::size_t steps, std::byte* operands) {
  struct alignas(64) {
    std::uint8_t head[16] = {1};
    std::uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;

  __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory"); // GCC's intrinsic names 8 bytes of it
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t i = 0; i < steps; ++i) {
    const std::byte* at = operands + i % 4 * 4096;
    _tile_loadd(4, at, 64);
    _tile_loadd(6, at + 1024, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, at + 2048, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, at + 3072, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, operands, 64);
  _tile_release();
  return static_cast<double>(steps) * 4 * 16 * 16 * 32 * 2;
}
#else
double multiply_tiles(std::size_t, std::byte*) {
  return 1.0;
}

long long read_memory(const std::byte* data, std::size_t num_bytes) {
  long long sum = 0;
  for (std::size_t i = 0; i + 8 <= num_bytes; i += 8) {
    long long value = 0;
    std::memcpy(&value, data + i, 8);
    sum += value;
  }
  return sum;
}

double multiply_add(isa, std::size_t steps, float* sink) {
  float chains[32] = {};
  for (std::size_t i = 0; i < steps; ++i)
    for (float& chain : chains)
      chain = std::fma(chain, 0.999F, 0.001F);
  std::copy_n(chains, 8, sink);
  return static_cast<double>(steps) * 32 * 2;
}
#endif

class bench {
 public:
  explicit bench(const settings& s)
      : settings_(s),
        pool_({.threads = s.threads}),
        selection_(select_isa(s.set)),
        ctx_(pool_, selection_.chosen) {
    measure_limits();
  }

  void run() {
    std::printf("%s, %u threads; measured: read %.1f GB/s, FMA %.1f GFLOP/s, BF16 products %.1f GFLOP/s\n\n",
                name_of(selection_.chosen), pool_.threads(), bandwidth_ * 1e-9, peak_ * 1e-9,
                bf16_peak_ * 1e-9);
    std::printf("%-44s %12s %9s %9s %9s\n", "kernel", "median us", "GB/s", "GFLOP/s", "of floor");
    for (const dtype type : {dtype::bf16, dtype::f32}) {
      products(type);
      experts(type);
    }
    for (const dtype type : {dtype::bf16, dtype::f32})
      attentions(type);
    small_ops();
    if (!settings_.json.empty())
      write_json();
  }

 private:
  void measure_limits() {
    const std::size_t num_bytes = std::size_t{512} << 20;
    buffer memory(num_bytes);
    std::memset(memory.data(), 1, num_bytes);
    std::vector<long long> sums(pool_.threads());
    // The limits are the best of the rounds.
    double best = 1e9;
    const std::size_t part = num_bytes / pool_.threads();
    for (int i = 0; i < 8; ++i)
      best =
          std::min(best, seconds_of([&] {
                     pool_.parallel_static(pool_.threads(), [&](unsigned, std::size_t from, std::size_t to) {
                       for (std::size_t p = from; p < to; ++p)
                         sums[p] = read_memory(memory.data() + p * part, part);
                     });
                   }));
    bandwidth_ = static_cast<double>(num_bytes) / best;
    best = 1e9;
    double operations = 0.0;
    std::vector<float> sink(pool_.threads() * 16);
    for (int i = 0; i < 8; ++i)
      best =
          std::min(best, seconds_of([&] {
                     pool_.parallel_static(pool_.threads(), [&](unsigned, std::size_t from, std::size_t to) {
                       for (std::size_t p = from; p < to; ++p)
                         operations = multiply_add(selection_.chosen, 2'000'000, sink.data() + p * 16);
                     });
                   }));
    peak_ = operations * pool_.threads() / best;
    bf16_peak_ = peak_;
    if (selection_.chosen != isa::amx)
      return;
    best = 1e9;
    buffer operands(pool_.threads() * 16384);
    for (int i = 0; i < 8; ++i)
      best =
          std::min(best, seconds_of([&] {
                     pool_.parallel_static(pool_.threads(), [&](unsigned, std::size_t from, std::size_t to) {
                       for (std::size_t p = from; p < to; ++p)
                         operations = multiply_tiles(100'000, operands.data() + p * 16384);
                     });
                   }));
    bf16_peak_ = operations * pool_.threads() / best;
  }

  // `work(i)` is called with a rising count, so that it can go round weights
  // larger than the caches.
  void measure(const std::string& name, double num_bytes, double multiply_adds,
               const std::function<void(std::size_t)>& work, dtype type = dtype::f32) {
    if (name.find(settings_.filter) == std::string::npos)
      return;
    // Calls of one round: about 20 ms.
    std::size_t count = 0;
    const double once = median_seconds(3, [&] { work(count++); });
    const auto calls = std::max<std::size_t>(1, static_cast<std::size_t>(0.02 / once));
    const double time = median_seconds(settings_.rounds,
                                       [&] {
                                         for (std::size_t i = 0; i < calls; ++i)
                                           work(count++);
                                       })
                        / static_cast<double>(calls);
    const double floor =
        std::max(num_bytes / bandwidth_, 2 * multiply_adds / (type == dtype::bf16 ? bf16_peak_ : peak_));
    results_.push_back(
        {name, time * 1e6, num_bytes / time * 1e-9, 2 * multiply_adds / time * 1e-9, floor * 1e6});
    std::printf("%-44s %12.1f %9.1f %9.1f %8.0f%%\n", name.c_str(), time * 1e6, num_bytes / time * 1e-9,
                2 * multiply_adds / time * 1e-9, 100 * floor / time);
    std::fflush(stdout);
  }

  // Weights of mild values: denormals and infinities would have other speeds.
  packed_matrix weights(dtype type, std::size_t n, std::size_t k, bool gate_up = false) {
    if (plain_.view().type != type || plain_.view().rows != n || plain_.view().cols != k)
      plain_ = rows(type, n, k);
    const tensor& plain = plain_;
    const packed_format format = format_for(type);
    return gate_up ? packed_matrix::pack_gate_up(format, plain.view(), plain.view())
                   : packed_matrix::pack(format, plain.view());
  }

  void fill(tensor_view rows, std::size_t r) {
    for (std::size_t c = 0; c < rows.cols; ++c) {
      const float value = static_cast<float>(static_cast<int>(random_() % 2001) - 1000) * 2e-5F;
      if (rows.type == dtype::f32)
        rows.row_as<float>(r)[c] = value;
      else
        rows.row_as<bfloat16>(r)[c] = to_bfloat16(value);
    }
  }

  tensor rows(dtype type, std::size_t count, std::size_t columns) {
    tensor t(type, count, columns);
    for (std::size_t r = 0; r < count; ++r)
      fill(t.view(), r);
    return t;
  }

  void products(dtype type) {
    constexpr std::size_t k = 1024;
    constexpr std::size_t n = 3584;
    const std::string name = std::string("gemm ") + name_of(type) + " 1024 x 3584, rows ";
    if (name.find(settings_.filter) == std::string::npos && settings_.filter.find(name) == std::string::npos)
      return;
    const std::size_t num_bytes = bytes_of(type, n * k);
    std::vector<packed_matrix> copies;
    for (std::size_t total = 0; total < beyond_caches; total += num_bytes)
      copies.push_back(weights(type, n, k));
    tensor x = rows(type, 512, k);
    tensor y(dtype::f32, 512, n);
    for (const std::size_t m : {1UL, 2UL, 4UL, 6UL, 8UL, 12UL, 16UL, 32UL, 128UL, 512UL})
      measure(
          name + std::to_string(m), static_cast<double>(num_bytes), static_cast<double>(m) * n * k,
          [&](std::size_t i) {
            gemm(ctx_, {.input = x.first(m), .weight = &copies[i % copies.size()], .output = y.first(m)});
          },
          type);
  }

  void experts(dtype type) {
    constexpr std::size_t hidden = 1024;
    constexpr std::size_t ffn = 1792;
    constexpr std::size_t num_experts = 16;
    const std::string name = std::string("expert_ffn ") + name_of(type) + " 1024 x 1792, 16 top-2, batch ";
    if (name.find(settings_.filter) == std::string::npos && settings_.filter.find(name) == std::string::npos)
      return;
    // So many layers that no cache keeps them.
    const std::size_t layers =
        std::max<std::size_t>(2, beyond_caches / (num_experts * bytes_of(type, 3 * hidden * ffn)));
    std::vector<expert_weights> all(layers * num_experts);
    for (auto& expert : all) {
      expert.gate_up = weights(type, ffn, hidden, true);
      expert.down = weights(type, hidden, ffn);
    }
    for (const std::size_t batch : {1UL, 8UL, 32UL, 512UL}) {
      tensor x = rows(type, batch, hidden);
      tensor y(type, 2 * batch, hidden);
      // A few fixed routings, two distinct experts a token.
      constexpr std::size_t routings = 8;
      std::vector<std::vector<std::vector<const std::byte*>>> from(routings);
      std::vector<std::vector<std::vector<std::byte*>>> to(routings);
      double active = 0.0;
      for (std::size_t v = 0; v < routings; ++v) {
        from[v].resize(num_experts);
        to[v].resize(num_experts);
        for (std::size_t b = 0; b < batch; ++b) {
          const std::size_t first = random_() % num_experts;
          const std::size_t second = (first + 1 + random_() % (num_experts - 1)) % num_experts;
          from[v][first].push_back(x.view().row(b));
          to[v][first].push_back(y.view().row(2 * b));
          from[v][second].push_back(x.view().row(b));
          to[v][second].push_back(y.view().row(2 * b + 1));
        }
        for (const auto& list : from[v])
          active += list.empty() ? 0.0 : 1.0 / routings;
      }
      std::vector<expert_segment> segments(num_experts);
      measure(
          name + std::to_string(batch), active * static_cast<double>(bytes_of(type, 3 * hidden * ffn)),
          static_cast<double>(2 * batch) * 3 * hidden * ffn,
          [&](std::size_t i) {
            const std::size_t v = i % routings;
            for (std::size_t e = 0; e < num_experts; ++e)
              segments[e] = {&all[i % layers * num_experts + e], from[v][e], to[v][e]};
            expert_ffn(ctx_, {segments, type});
          },
          type);
    }
  }

  void attentions(dtype type) {
    constexpr std::size_t heads = 16;
    constexpr std::size_t kv_heads = 4;
    constexpr std::size_t head_dim = 64;
    constexpr std::size_t context_tokens = 2048;
    constexpr std::size_t layers = 64;
    const kv_cache_config config{{{layers, kv_heads, head_dim, type}}, 16};
    kv_cache cache(config, context_tokens / 16);
    tensor kv = rows(dtype::f32, context_tokens, kv_heads * head_dim);
    std::vector<std::uint32_t> slots(context_tokens);
    std::iota(slots.begin(), slots.end(), 0U);
    for (std::size_t layer = 0; layer < layers; ++layer)
      kv_write(ctx_, {&cache, layer, kv.view(), kv.view(), slots});
    std::vector<std::uint32_t> blocks(context_tokens / 16);
    std::iota(blocks.begin(), blocks.end(), 0U);
    const attention_sequence sequence{blocks};
    tensor query = rows(dtype::f32, 512, heads * head_dim);
    tensor out(dtype::f32, 512, heads * head_dim);

    struct variant {
      const char* name;
      std::size_t rows;
      std::size_t first;
    };

    for (const variant& v :
         {variant{"decode at 128", 1, 128}, variant{"decode at 2047", 1, 2047},
          variant{"prefill 0 to 512", 512, 0}, variant{"prefill 1536 to 2048", 512, 1536}}) {
      std::vector<attention_row> batch;
      double keys = 0.0;
      for (std::size_t r = 0; r < v.rows; ++r) {
        batch.push_back({0, static_cast<std::uint32_t>(v.first + r)});
        keys += static_cast<double>(v.first + r + 1);
      }
      measure(
          std::string("attention ") + name_of(type) + " 16/4 x 64, " + v.name,
          static_cast<double>((v.first + v.rows) * config.groups[0].bytes_per_token()),
          keys * heads * head_dim * 2,
          [&](std::size_t i) {
            attention(ctx_, {.cache = &cache,
                             .layer = i % layers,
                             .query = query.first(v.rows),
                             .heads = heads,
                             .rows = batch,
                             .sequences = {&sequence, 1},
                             .scale = 0.125F,
                             .output = out.first(v.rows)});
          },
          type);
    }
    measure(std::string("kv_write ") + name_of(type) + " 512 rows",
            512.0 * static_cast<double>(config.groups[0].bytes_per_token()), 0.0, [&](std::size_t i) {
              kv_write(ctx_, {&cache, i % layers, kv.first(512), kv.first(512), std::span(slots).first(512)});
            });
  }

  void small_ops() {
    tensor x = rows(dtype::f32, 512, 1024);
    tensor y(dtype::bf16, 512, 1024);
    const std::vector<float> weight(1024, 1.0F);
    for (const std::size_t m : {1UL, 512UL})
      measure("rms_norm 1024, rows " + std::to_string(m), static_cast<double>(m) * 1024 * 4, 0.0,
              [&](std::size_t) {
                rms_norm(ctx_, {.input = x.first(m), .weight = weight.data(), .output = y.first(m)});
              });
    tensor logits = rows(dtype::f32, 8, 32000);
    for (std::size_t r = 0; r < 8; ++r)
      for (std::size_t c = 0; c < 32000; ++c)
        logits.view().row_as<float>(r)[c] *= 300.0F;
    std::vector<sampled_token> out(8);
    const auto sampling = [&](const char* name, const sampling_params& params, std::size_t count) {
      std::vector<sampling_row> sampled(count);
      for (std::size_t i = 0; i < count; ++i)
        sampled[i] = {.logits_row = i, .params = params, .key = {1, 0, static_cast<std::uint32_t>(i), 0}};
      measure(
          std::string("sample 32000, ") + name, static_cast<double>(count) * 32000 * 4, 0.0,
          [&, sampled](std::size_t) { sample(ctx_, logits.view(), sampled, std::span(out).first(count)); });
    };
    sampling("greedy, 1 row", {.temperature = 0.0F}, 1);
    sampling("temperature 1, 1 row", {}, 1);
    sampling("top-p 0.9, 8 rows", {.top_p = 0.9F}, 8);
    sampling("top-k 40, 8 rows", {.top_k = 40}, 8);
    measure("fork and join", 0.0, 0.0, [&](std::size_t) {
      pool_.parallel_static(pool_.threads(), [](unsigned, std::size_t, std::size_t) {});
    });
  }

  void write_json() {
    std::ofstream file(settings_.json);
    file << "{\"isa\": \"" << name_of(selection_.chosen) << "\", \"threads\": " << pool_.threads()
         << ", \"bandwidth_gbps\": " << bandwidth_ * 1e-9 << ", \"fma_gflops\": " << peak_ * 1e-9
         << ", \"bf16_gflops\": " << bf16_peak_ * 1e-9 << ", \"results\": [";
    const char* separator = "\n";
    for (const result& r : results_) {
      file << separator << "  {\"name\": \"" << r.name << "\", \"median_us\": " << r.microseconds
           << ", \"gbps\": " << r.gigabytes << ", \"gflops\": " << r.gigaflops
           << ", \"floor_us\": " << r.floor_microseconds << "}";
      separator = ",\n";
    }
    file << "\n]}\n";
    if (!file.flush())
      std::fprintf(stderr, "kernels_bench: cannot write %s\n", settings_.json.c_str());
  }

  settings settings_;
  thread_pool pool_;
  isa_selection selection_;
  context ctx_;
  double bandwidth_ = 0.0;
  double peak_ = 0.0;
  double bf16_peak_ = 0.0;
  std::vector<result> results_;
  tensor plain_; // what is packed again and again
  std::mt19937 random_{1};
};

} // namespace

int main(int argc, char** argv) {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = argv[i + 1];
    if (flag == "--threads")
      s.threads = static_cast<unsigned>(std::atoi(value));
    else if (flag == "--isa" && isa_from_name(value))
      s.set = isa_from_name(value);
    else if (flag == "--rounds")
      s.rounds = std::max(1, std::atoi(value));
    else if (flag == "--filter")
      s.filter = value;
    else if (flag == "--clock")
      cpu_clock = std::strcmp(value, "cpu") == 0;
    else if (flag == "--json")
      s.json = value;
    else {
      std::fprintf(stderr, "kernels_bench: unknown %s %s\n", flag.c_str(), value);
      return 2;
    }
  }
  try {
    bench(s).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels_bench: %s\n", error.what());
    return 1;
  }
}
