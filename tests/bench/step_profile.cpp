// Shows how the time of a step is divided. It is linked in front of the ops (--wrap, CMakeLists.txt), so that
// the product holds no counters. engine_profile is engine_bench with this. At its end it prints, per op and
// for each of its parallel parts, the wall time of a step, the waiting time of its threads, and the bytes of
// weights over the bandwidth of the same run.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/combine.hpp"
#include "kernels/embedding.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/router.hpp"
#include "tests/bench/machine_limits.hpp"

namespace troupe::bench {

namespace {

using namespace kernels;

constexpr unsigned most_threads = 64;

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct part {
  std::size_t order = 0;
  std::size_t calls = 0;
  double wall = 0.0;   // µs
  double waited = 0.0; // µs of all threads together
  double bytes = 0.0;
};

class profile {
 public:
  // The first steps grow scratch and warm up: an `embed` begins a step.
  void begin_step() {
    if (++steps_ == skipped + 1) {
      parts_.clear();
      began_ = now();
    }
  }

  void end_step() { ended_ = now(); }

  part& at(const std::string& name) {
    auto [it, added] = parts_.try_emplace(name);
    if (added)
      it->second.order = parts_.size();
    return it->second;
  }

  void print() const {
    if (steps_ <= skipped)
      return;
    const double steps = static_cast<double>(steps_ - skipped);
    thread_pool pool;
    const double rate = measure_limits(pool).read_bytes_per_second * 1e-6; // bytes a µs
    std::vector<std::pair<std::string, part>> rows(parts_.begin(), parts_.end());
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.second.order < b.second.order; });
    std::fprintf(stderr, "%.0f steps of %.0f µs; read %.1f GB/s\n\n", steps, (ended_ - began_) / steps,
                 rate * 1e-3);
    std::fprintf(stderr, "| part | calls | µs a step | µs waited, per thread | floor µs | GB/s "
                         "|\n|---|---|---|---|---|---|\n");
    for (const auto& [name, p] : rows) {
      std::fprintf(stderr, "| %s | %.0f | %.0f | %.0f |", name.c_str(), static_cast<double>(p.calls) / steps,
                   p.wall / steps, p.waited / pool.threads() / steps);
      if (p.bytes > 0)
        std::fprintf(stderr, " %.0f | %.1f |\n", p.bytes / rate / steps, p.bytes / p.wall * 1e-3);
      else
        std::fprintf(stderr, " | |\n");
    }
  }

  ~profile() { print(); }

 private:
  static constexpr std::size_t skipped = 2;

  std::size_t steps_ = 0;
  double began_ = 0.0;
  double ended_ = 0.0;
  std::map<std::string, part> parts_;
};

profile all;
std::string current;    // the running op, empty: none
std::size_t region = 0; // its parallel parts so far

// An op's time; its parallel parts are listed under it.
template <class Call>
void timed(const std::string& name, double bytes, const Call& call) {
  current = name;
  region = 0;
  part& p = all.at(name);
  const double begin = now();
  call();
  p.wall += now() - begin;
  p.bytes += bytes;
  ++p.calls;
  all.end_step();
  current.clear();
}

// One parallel part: the time of the threads inside the function; the rest they waited.
template <class Call>
void parallel(unsigned threads, const range_function& function, const Call& call) {
  struct alignas(64) busy_time {
    double microseconds = 0.0;
  };

  busy_time busy[most_threads];
  const auto work = [&](unsigned thread, std::size_t begin, std::size_t end) {
    const double from = now();
    function(thread, begin, end);
    busy[thread].microseconds += now() - from;
  };
  const double begin = now();
  call(range_function(work));
  const double wall = now() - begin;
  if (current.empty())
    return;
  double sum = 0.0;
  for (const auto& b : busy)
    sum += b.microseconds;
  part& p = all.at(current + ": part " + std::to_string(++region));
  p.wall += wall;
  p.waited += wall * threads - sum;
  ++p.calls;
  all.at(current).waited += wall * threads - sum;
}

std::string name_of(const gemm_args& args) {
  return "gemm " + std::to_string(args.weight->inputs()) + " × " + std::to_string(args.weight->outputs());
}

double bytes_of(const expert_ffn_args& args) {
  double sum = 0.0;
  for (const auto& segment : args.segments)
    sum +=
        static_cast<double>(segment.weights->gate_up.bytes().size() + segment.weights->down.bytes().size());
  return sum;
}

} // namespace

} // namespace troupe::bench

using namespace troupe::kernels;
using troupe::bench::all;
using troupe::bench::timed;

// The names are those of the ops' symbols; `--wrap` sends calls of X to __wrap_X and calls of __real_X to X.
#define TROUPE_OP(name, args_type, symbol, label, bytes)                                                     \
  void real_##name(context&, const args_type&) __asm__("__real_" symbol);                                    \
  void wrap_##name(context&, const args_type&) __asm__("__wrap_" symbol);                                    \
  void wrap_##name(context& ctx, const args_type& args) {                                                    \
    timed(label, bytes, [&] { real_##name(ctx, args); });                                                    \
  }

TROUPE_OP(gemm, gemm_args, "_ZN6troupe7kernels4gemmERNS0_7contextERKNS0_9gemm_argsE",
          troupe::bench::name_of(args), static_cast<double>(args.weight->bytes().size()))
TROUPE_OP(expert_ffn, expert_ffn_args,
          "_ZN6troupe7kernels10expert_ffnERNS0_7contextERKNS0_15expert_ffn_argsE", "expert_ffn",
          troupe::bench::bytes_of(args))
TROUPE_OP(attention, attention_args, "_ZN6troupe7kernels9attentionERNS0_7contextERKNS0_14attention_argsE",
          "attention", 0.0)
TROUPE_OP(combine, combine_args, "_ZN6troupe7kernels7combineERNS0_7contextERKNS0_12combine_argsE", "combine",
          0.0)
TROUPE_OP(kv_write, kv_write_args, "_ZN6troupe7kernels8kv_writeERNS0_7contextERKNS0_13kv_write_argsE",
          "kv_write", 0.0)
TROUPE_OP(rms_norm, rms_norm_args, "_ZN6troupe7kernels8rms_normERNS0_7contextERKNS0_13rms_norm_argsE",
          "rms_norm", 0.0)
TROUPE_OP(rope, rope_args, "_ZN6troupe7kernels4ropeERNS0_7contextERKNS0_9rope_argsE", "rope", 0.0)
TROUPE_OP(route, router_args, "_ZN6troupe7kernels5routeERNS0_7contextERKNS0_11router_argsE", "route", 0.0)

#define TROUPE_EMBED                                                                                         \
  "_ZN6troupe7kernels5embedERNS0_7contextENS0_17const_tensor_viewESt4spanIKjLm18446744073709551615EENS0_"    \
  "11tensor_"                                                                                                \
  "viewEfPKf"
void real_embed(context&, const_tensor_view, std::span<const std::uint32_t>, tensor_view, float,
                const float*) __asm__("__real_" TROUPE_EMBED);
void wrap_embed(context&, const_tensor_view, std::span<const std::uint32_t>, tensor_view, float,
                const float*) __asm__("__wrap_" TROUPE_EMBED);

void wrap_embed(context& ctx, const_tensor_view table, std::span<const std::uint32_t> tokens, tensor_view out,
                float factor, const float* scales) {
  all.begin_step();
  timed("embed", 0.0, [&] { real_embed(ctx, table, tokens, out, factor, scales); });
}

#define TROUPE_STATIC "_ZN6troupe7kernels11thread_pool15parallel_staticEmNS0_14range_functionE"
#define TROUPE_DYNAMIC "_ZN6troupe7kernels11thread_pool16parallel_dynamicEmmNS0_14range_functionE"
#define TROUPE_ITEMS "_ZN6troupe7kernels11thread_pool14parallel_itemsEmNS0_14range_functionE"
void real_static(thread_pool*, std::size_t, range_function) __asm__("__real_" TROUPE_STATIC);
void wrap_static(thread_pool*, std::size_t, range_function) __asm__("__wrap_" TROUPE_STATIC);
void real_dynamic(thread_pool*, std::size_t, std::size_t, range_function) __asm__("__real_" TROUPE_DYNAMIC);
void wrap_dynamic(thread_pool*, std::size_t, std::size_t, range_function) __asm__("__wrap_" TROUPE_DYNAMIC);

void real_items(thread_pool*, std::size_t, range_function) __asm__("__real_" TROUPE_ITEMS);
void wrap_items(thread_pool*, std::size_t, range_function) __asm__("__wrap_" TROUPE_ITEMS);

void wrap_static(thread_pool* pool, std::size_t count, range_function function) {
  troupe::bench::parallel(pool->threads(), function, [&](range_function f) { real_static(pool, count, f); });
}

void wrap_items(thread_pool* pool, std::size_t count, range_function function) {
  troupe::bench::parallel(pool->threads(), function, [&](range_function f) { real_items(pool, count, f); });
}

void wrap_dynamic(thread_pool* pool, std::size_t count, std::size_t grain, range_function function) {
  troupe::bench::parallel(pool->threads(), function,
                          [&](range_function f) { real_dynamic(pool, count, grain, f); });
}
