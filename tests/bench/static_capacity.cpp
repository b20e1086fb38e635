// One MoE layer with dynamic gating against static capacities, which exist only here.
//
//   static_capacity [THREADS]
//
// "Towards MoE Deployment" (sections III and V): with a static capacity every expert is given C x S rows for
// a batch of S tokens, filled up with zeros, and masks of one-hot entries move rows there and back. Dynamic
// gating sorts the (token, expert) pairs and computes those that exist. Printed for 16, 64 and 128 experts,
// top-2, with the paper's two capacities: C x E = 25.6 (its language model, 512 experts and 0.05) as far as C
// does not exceed 1, and C = 1, with which no token can be dropped (its translation model): tokens per
// second, and bytes of activations (rows to the experts, their hidden rows, rows back, masks or tables).
//
// masks    rows are moved by products with one-hot masks, as in GShard and the paper's baseline
// padded   rows are copied; only the empty places of the capacity are computed in vain
// dynamic  what serves
//
// Tokens that a capacity drops are counted: the static modes have computed something else.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/router.hpp"
#include "kernels/tensor.hpp"

namespace {

using namespace troupe::kernels;

constexpr std::size_t hidden = 512;
constexpr std::size_t ffn = 1024;
constexpr std::size_t top_k = 2;
constexpr std::size_t num_tokens = 256;
constexpr double zipf = 0.8; ///< skew of the experts' popularity

using clock_type = std::chrono::steady_clock;

struct routing {
  std::vector<std::uint32_t> experts; ///< [tokens, top_k]
};

class layer {
 public:
  layer(context& ctx, std::size_t num_experts) : ctx_(ctx), num_experts_(num_experts), random_(11) {
    std::normal_distribution<float> normal;
    const auto filled = [&](std::size_t rows, std::size_t columns) {
      tensor result(dtype::bf16, rows, columns);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c)
          result.view().row_as<bfloat16>(r)[c] = to_bfloat16(normal(random_) / 16);
      return result;
    };
    for (std::size_t e = 0; e < num_experts; ++e) {
      const tensor gate = filled(ffn, hidden);
      const tensor up = filled(ffn, hidden);
      const tensor down = filled(hidden, ffn);
      auto& expert = experts_.emplace_back();
      expert.gate_up = packed_matrix::pack_gate_up(packed_format::bf16_pair, gate.view(), up.view(),
                                                   ctx.instruction_set());
      expert.down = packed_matrix::pack(packed_format::bf16_pair, down.view(), ctx.instruction_set());
    }
    tokens_ = filled(num_tokens, hidden);
    for (std::size_t e = 0; e < num_experts; ++e)
      popularity_.push_back(1 / std::pow(static_cast<double>(e + 1), zipf));
    std::shuffle(popularity_.begin(), popularity_.end(), random_);
  }

  routing draw() {
    routing result;
    for (std::size_t token = 0; token < num_tokens; ++token) {
      auto left = popularity_;
      for (std::size_t slot = 0; slot < top_k; ++slot) {
        const auto expert = std::discrete_distribution<std::uint32_t>{left.begin(), left.end()}(random_);
        left[expert] = 0;
        result.experts.push_back(expert);
      }
    }
    return result;
  }

  /// Time since the last call for converting rows to the layout of weights, which a product made for masks
  /// would not need.
  clock_type::duration packing() { return std::exchange(packing_, {}); }

  /// The served way: a counting sort, and rows that are read in place.
  /// @returns bytes of activations
  std::size_t dynamic(const routing& routed) {
    std::vector<std::uint32_t> offsets(num_experts_ + 1);
    std::vector<std::uint32_t> entries(routed.experts.size());
    build_expert_table(
        {.experts = routed.experts, .num_experts = num_experts_, .offsets = offsets, .entries = entries});
    if (outputs_.view().rows < entries.size())
      outputs_ = tensor(dtype::bf16, entries.size(), hidden);
    std::vector<const std::byte*> from(entries.size());
    std::vector<std::byte*> to(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      from[i] = tokens_.view().row(entries[i] / top_k);
      to[i] = outputs_.view().row(entries[i]);
    }
    std::vector<expert_segment> segments(num_experts_);
    for (std::size_t e = 0; e < num_experts_; ++e) {
      const auto count = offsets[e + 1] - offsets[e];
      segments[e] = {&experts_[e], std::span(from).subspan(offsets[e], count),
                     std::span(to).subspan(offsets[e], count)};
    }
    expert_ffn(ctx_, {segments, dtype::bf16});
    return entries.size() * (hidden + ffn) * 2 + offsets.size() * 4 + entries.size() * 4;
  }

  /// `capacity` rows for every expert. @returns bytes of activations
  std::size_t padded(const routing& routed, std::size_t capacity, bool masks, std::size_t& dropped) {
    const std::size_t places = num_experts_ * capacity;
    if (inputs_.view().rows != places) {
      inputs_ = tensor(dtype::bf16, places, hidden);
      placed_ = tensor(dtype::bf16, places, hidden);
    }
    // The first free place of its expert, for each pair.
    std::vector<std::uint32_t> used(num_experts_);
    std::vector<std::uint32_t> token_at(places, num_tokens);
    dropped = 0;
    for (std::size_t pair = 0; pair < routed.experts.size(); ++pair) {
      const auto expert = routed.experts[pair];
      if (used[expert] == capacity) {
        ++dropped;
        continue;
      }
      token_at[expert * capacity + used[expert]++] = static_cast<std::uint32_t>(pair / top_k);
    }
    if (masks)
      dispatch_by_mask(token_at);
    else
      for (std::size_t place = 0; place < places; ++place) {
        auto* to = inputs_.view().row(place);
        if (token_at[place] < num_tokens)
          std::memcpy(to, tokens_.view().row(token_at[place]), hidden * 2);
        else
          std::memset(to, 0, hidden * 2);
      }
    std::vector<const std::byte*> from(places);
    std::vector<std::byte*> to(places);
    for (std::size_t place = 0; place < places; ++place) {
      from[place] = inputs_.view().row(place);
      to[place] = placed_.view().row(place);
    }
    std::vector<expert_segment> segments(num_experts_);
    for (std::size_t e = 0; e < num_experts_; ++e)
      segments[e] = {&experts_[e], std::span(from).subspan(e * capacity, capacity),
                     std::span(to).subspan(e * capacity, capacity)};
    expert_ffn(ctx_, {segments, dtype::bf16});
    if (masks)
      combine_by_mask(token_at);
    const auto mask_bytes = masks ? 2 * places * num_tokens * 2 : places * 4;
    return places * (2 * hidden + ffn) * 2 + mask_bytes;
  }

 private:
  /// inputs = mask [places, tokens] x tokens [tokens, hidden].
  void dispatch_by_mask(const std::vector<std::uint32_t>& token_at) { multiply_by_mask(token_at, false); }

  /// outputs = mask transposed [tokens, places] x placed [places, hidden].
  void combine_by_mask(const std::vector<std::uint32_t>& token_at) { multiply_by_mask(token_at, true); }

  /// The product with the engine's own GEMM: its weights are the rows that the mask moves, transposed.
  void multiply_by_mask(const std::vector<std::uint32_t>& token_at, bool back) {
    const std::size_t places = token_at.size();
    const std::size_t rows = back ? num_tokens : places;
    const std::size_t inner = back ? places : num_tokens;
    tensor mask(dtype::bf16, rows, inner);
    for (std::size_t r = 0; r < rows; ++r)
      std::memset(mask.view().row(r), 0, inner * 2);
    for (std::size_t place = 0; place < places; ++place)
      if (token_at[place] < num_tokens) {
        const auto token = token_at[place];
        mask.view().row_as<bfloat16>(back ? token : place)[back ? place : token] = to_bfloat16(1.0F);
      }
    const tensor_view source = back ? placed_.view() : tokens_.view();
    const auto start = clock_type::now();
    tensor transposed(dtype::bf16, hidden, inner);
    for (std::size_t r = 0; r < inner; ++r)
      for (std::size_t c = 0; c < hidden; ++c)
        transposed.view().row_as<bfloat16>(c)[r] = source.row_as<bfloat16>(r)[c];
    const auto weight =
        packed_matrix::pack(packed_format::bf16_pair, transposed.view(), ctx_.instruction_set());
    packing_ += clock_type::now() - start;
    tensor result(dtype::f32, rows, hidden);
    gemm(ctx_, {.input = mask.view(), .weight = &weight, .output = result.view()});
    if (!back)
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < hidden; ++c)
          inputs_.view().row_as<bfloat16>(r)[c] = to_bfloat16(result.view().row_as<float>(r)[c]);
  }

  context& ctx_;
  clock_type::duration packing_{};
  std::size_t num_experts_;
  std::mt19937 random_;
  std::vector<expert_weights> experts_;
  std::vector<double> popularity_;
  tensor tokens_;
  tensor outputs_;
  tensor inputs_;
  tensor placed_;
};

struct measured {
  double tokens_per_second = 0;
  std::size_t bytes = 0;
  std::size_t dropped = 0;
};

template <class Step>
double best_rate(layer& one, std::size_t rounds, const Step& step) {
  step(0); // scratch grows
  one.packing();
  double best = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto start = clock_type::now();
    step(round);
    const std::chrono::duration<double> took = clock_type::now() - start - one.packing();
    best = std::max(best, num_tokens / took.count());
  }
  return best;
}

} // namespace

int main(int argc, char** argv) {
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1]))
                                    : std::max(1U, std::thread::hardware_concurrency());
  thread_pool pool{{.threads = threads}};
  context ctx{pool};
  std::printf("%zu tokens, top-%zu, hidden %zu, ffn %zu, bf16, experts of Zipf %.1f, %u threads; best of 5\n",
              num_tokens, top_k, hidden, ffn, zipf, threads);
  std::printf("%8s %9s %8s %12s %10s %12s %10s %9s\n", "experts", "capacity", "mode", "tokens/s", "x slower",
              "MiB", "x memory", "dropped");
  for (const std::size_t num_experts : {16U, 64U, 128U}) {
    layer one{ctx, num_experts};
    std::vector<routing> routings;
    for (std::size_t i = 0; i < 5; ++i)
      routings.push_back(one.draw());
    measured base;
    base.tokens_per_second =
        best_rate(one, 5, [&](std::size_t round) { base.bytes = one.dynamic(routings[round % 5]); });
    const auto print = [&](const char* capacity, const char* mode, const measured& value) {
      std::printf("%8zu %9s %8s %12.0f %10.2f %12.2f %10.2f %9zu\n", num_experts, capacity, mode,
                  value.tokens_per_second, base.tokens_per_second / value.tokens_per_second,
                  static_cast<double>(value.bytes) / (1 << 20),
                  static_cast<double>(value.bytes) / static_cast<double>(base.bytes), value.dropped);
    };
    print("-", "dynamic", base);
    for (const double factor : {std::min(1.0, 25.6 / static_cast<double>(num_experts)), 1.0}) {
      char text[16];
      std::snprintf(text, sizeof text, "%.2f", factor);
      const auto capacity = static_cast<std::size_t>(std::ceil(factor * num_tokens));
      for (const bool masks : {false, true}) {
        measured value;
        value.tokens_per_second = best_rate(one, masks ? 2 : 5, [&](std::size_t round) {
          value.bytes = one.padded(routings[round % 5], capacity, masks, value.dropped);
        });
        print(text, masks ? "masks" : "padded", value);
      }
      if (factor == 1.0)
        break;
    }
  }
  return 0;
}
