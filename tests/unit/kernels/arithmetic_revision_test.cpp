// The bits of `arithmetic_revision`, as a hash of each op's results. If one of these tests fails, the
// arithmetic has changed: raise the revision, and record what the test prints.
#include "kernels/arithmetic_revision.hpp"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "kernels/attention.hpp"
#include "kernels/combine.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/norm.hpp"
#include "kernels/query_factors.hpp"
#include "kernels/rope.hpp"
#include "kernels/router.hpp"
#include "kernels/sampling.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

constexpr packed_format formats[] = {
    packed_format::f32_panel,    packed_format::bf16_pair,    packed_format::int8_channel,
    packed_format::int4_channel, packed_format::int4_group32, packed_format::int4_group64,
};

/// Values of many magnitudes and both signs, made from integers alone, so that they depend on no library's
/// arithmetic.
std::vector<float> values(std::size_t count, std::uint32_t stream) {
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto words = philox4x32({static_cast<std::uint32_t>(i), stream, 0, 0}, {1, 2});
    const auto magnitude = static_cast<float>(words[0] >> 8) * 0x1p-24F;
    result[i] = (words[1] % 2 == 0 ? magnitude : -magnitude) / static_cast<float>(1U << (words[2] % 4));
  }
  return result;
}

/// FNV-1a, 64 bit.
class hash {
 public:
  template <class T>
  void add(const std::vector<T>& results) {
    for (const auto byte : std::as_bytes(std::span{results}))
      value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  }

  void add(const packed_matrix& matrix) { add(std::vector(matrix.bytes().begin(), matrix.bytes().end())); }

  std::string text() const {
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4)
      digits += "0123456789abcdef"[value_ >> shift & 15U];
    return digits;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// The hash of `compute(context, hash)`, equal for every instruction set of this machine.
template <class Compute>
void expect_hash(const char* expected, const Compute& compute) {
  ASSERT_EQ(arithmetic_revision, 1U) << "the hashes here are of revision 1";
  thread_pool pool({.threads = 2});
  for (const isa set : supported_isas()) {
    context ctx(pool, set);
    hash results;
    compute(ctx, results);
    EXPECT_EQ(results.text(), expected) << name_of(set);
  }
}

// 200 and 37 are no multiples of the kernels' steps.
constexpr std::size_t rows = 5;
constexpr std::size_t inputs = 200;
constexpr std::size_t outputs = 37;

/// Calls `use(packed, rows' type)` for each format, and with int8 rows if it takes them.
template <class Use>
void for_each_packed(context& ctx, std::size_t n, std::size_t k, const Use& use) {
  const auto weights = values(n * k, 1);
  for (const auto format : formats)
    for (const auto quant : {row_quant::none, row_quant::int8}) {
      auto packed = packed_matrix::pack(format, view_of(weights.data(), n, k), ctx.instruction_set());
      packed.set_rows(quant);
      use(packed);
    }
}

} // namespace

TEST(arithmetic_revision, quantization) {
  expect_hash("17d2bb5f63379d05", [](context& ctx, hash& results) {
    for_each_packed(ctx, outputs, inputs, [&](const packed_matrix& packed) { results.add(packed); });
  });
}

TEST(arithmetic_revision, products) {
  const auto x = values(rows * inputs, 2);
  const auto bias = values(outputs, 3);
  expect_hash("adee6ff21187e1b2", [&](context& ctx, hash& results) {
    for_each_packed(ctx, outputs, inputs, [&](const packed_matrix& packed) {
      std::vector<float> y(rows * outputs, poison);
      gemm(ctx, {.input = view_of(x.data(), rows, inputs),
                 .weight = &packed,
                 .bias = bias.data(),
                 .output = view_of(y.data(), rows, outputs)});
      results.add(y);
    });
  });
}

TEST(arithmetic_revision, experts) {
  constexpr std::size_t hidden = 72;
  constexpr std::size_t ffn = 40;
  const auto gate = values(ffn * hidden, 4);
  const auto up = values(ffn * hidden, 5);
  const auto down = values(hidden * ffn, 6);
  const auto x = rounded(values(rows * hidden, 7));
  expect_hash("58e738009ca39d1b", [&](context& ctx, hash& results) {
    for (const auto format : formats) {
      if (format == packed_format::f32_panel)
        continue;
      for (const auto quant : {row_quant::none, row_quant::int8}) {
        expert_weights expert;
        expert.gate_up = packed_matrix::pack_gate_up(format, view_of(gate.data(), ffn, hidden),
                                                     view_of(up.data(), ffn, hidden), ctx.instruction_set());
        expert.down = packed_matrix::pack(format, view_of(down.data(), hidden, ffn), ctx.instruction_set());
        expert.gate_up.set_rows(quant);
        expert.down.set_rows(quant);
        std::vector<bfloat16> y(rows * hidden);
        std::vector<const std::byte*> from(rows);
        std::vector<std::byte*> to(rows);
        for (std::size_t r = 0; r < rows; ++r) {
          from[r] = reinterpret_cast<const std::byte*>(x.data() + r * hidden);
          to[r] = reinterpret_cast<std::byte*>(y.data() + r * hidden);
        }
        const expert_segment segment{&expert, from, to};
        expert_ffn(ctx, {.segments = {&segment, 1}, .row_type = dtype::bf16});
        results.add(y);
        std::vector<float> residual(hidden);
        const auto weights = values(rows, 8);
        combine(ctx, {.rows = from,
                      .weights = weights,
                      .top_k = rows,
                      .row_type = dtype::bf16,
                      .residual = view_of(residual.data(), 1, hidden)});
        results.add(residual);
      }
    }
  });
}

TEST(arithmetic_revision, attention) {
  constexpr std::size_t tokens = 70;
  constexpr std::size_t heads = 4;
  constexpr std::size_t kv_heads = 2;
  constexpr std::size_t head_dim = 24;
  constexpr std::size_t block_tokens = 16;
  const auto keys = values(tokens * kv_heads * head_dim, 9);
  const auto queries = values(tokens * heads * head_dim, 10);
  const std::vector<std::uint32_t> blocks{3, 1, 4, 0, 2};
  expect_hash("7ed47889233dabeb", [&](context& ctx, hash& results) {
    for (const auto type : {dtype::f32, dtype::bf16, dtype::int8})
      for (const std::size_t window : {0UL, 19UL}) {
        kv_cache cache({{{1, kv_heads, head_dim, type}}, block_tokens}, blocks.size());
        std::vector<std::uint32_t> slots;
        std::vector<attention_row> query_rows;
        for (std::uint32_t i = 0; i < tokens; ++i) {
          slots.push_back(
              static_cast<std::uint32_t>(blocks[i / block_tokens] * block_tokens + i % block_tokens));
          query_rows.push_back({0, i});
        }
        const auto view = view_of(keys.data(), tokens, kv_heads * head_dim);
        kv_write(ctx, {&cache, 0, view, view, slots});
        std::vector<float> out(tokens * heads * head_dim, poison);
        const attention_sequence sequence{blocks};
        attention(ctx, {.cache = &cache,
                        .query = view_of(queries.data(), tokens, heads * head_dim),
                        .heads = heads,
                        .rows = query_rows,
                        .sequences = {&sequence, 1},
                        .scale = 0.25F,
                        .sliding_window = window,
                        .output = view_of(out.data(), tokens, heads * head_dim)});
        results.add(out);
      }
  });
}

TEST(arithmetic_revision, norms_positions_and_routers) {
  constexpr std::size_t width = 96;
  const auto x = values(rows * width, 11);
  const auto weight = values(width, 12);
  const rope_table positions({.rotary_dim = 24, .base = 1e6}, 300);
  const std::vector<std::uint32_t> places{0, 1, 17, 150, 299};
  expect_hash("baf8cb18fab2f212", [&](context& ctx, hash& results) {
    std::vector<float> y(rows * width);
    rms_norm(ctx, {.input = view_of(x.data(), rows, width),
                   .weight = weight.data(),
                   .output = view_of(y.data(), rows, width)});
    results.add(y);
    rope(ctx, {.rows = view_of(y.data(), rows, width),
               .heads = 4,
               .head_dim = 24,
               .positions = places,
               .table = &positions});
    results.add(y);
    std::vector<std::uint32_t> experts(rows * 4);
    std::vector<float> weights(rows * 4);
    for (const bool renormalise : {false, true}) {
      route(ctx, {.logits = view_of(x.data(), rows, width),
                  .top_k = 4,
                  .renormalise = renormalise,
                  .experts = experts,
                  .weights = weights});
      results.add(experts);
      results.add(weights);
    }
  });
}

TEST(arithmetic_revision, further_routers_and_activations) {
  constexpr std::size_t width = 96;
  const auto x = values(rows * width, 14);
  const auto bias = values(width, 15);
  std::vector<std::uint32_t> experts(rows * 2);
  std::vector<float> weights(rows * 2);
  const router_args plain{
      .logits = view_of(x.data(), rows, width), .top_k = 2, .experts = experts, .weights = weights};
  auto grouped = plain;
  grouped.score = router_score::sigmoid;
  grouped.renormalise = true;
  grouped.sum_offset = 1e-20F;
  grouped.scale = 2.5F;
  grouped.choice_bias = bias.data();
  grouped.groups = {.count = 8, .kept = 4, .rank = group_rank::sum_of_two};
  auto sparse = plain;
  sparse.score = router_score::sparsemixer;
  sparse.jitter = 0.1F;
  const std::vector<double> divisors(12, 1.25);
  const rope_table positions(
      {.rotary_dim = 24, .scaling = rope_scaling::longrope, .attention_factor = 1.2, .divisors = divisors},
      300);
  const std::vector<std::uint32_t> places{0, 1, 17, 150, 299};
  const auto factors = query_factors(0.1, 8.0, 300);
  expect_hash("8a9555d4b46525f7", [&](context& ctx, hash& results) {
    for (const router_args& args : {plain, grouped, sparse}) {
      route(ctx, args);
      results.add(experts);
      results.add(weights);
    }
    std::vector<float> y(rows * width);
    gated_activation(ctx, activation::clamped_glu, view_of(x.data(), rows, width),
                     view_of(x.data(), rows, width), view_of(y.data(), rows, width), 0.5F);
    results.add(y);
    y = x;
    const auto view = view_of(y.data(), rows, width);
    rope(ctx, {.rows = view,
               .heads = 2,
               .head_dim = 48,
               .positions = places,
               .table = &positions,
               .style = rope_style::interleaved,
               .first = 24});
    rms_norm(ctx, {.input = view, .output = view, .group = 48});
    scale_queries(ctx, view, places, factors);
    add_rows(ctx, view_of(x.data(), rows, width), view, 0.22F);
    divide_rows(ctx, view, 6.0F);
    results.add(y);
  });
}

TEST(arithmetic_revision, sampling) {
  constexpr std::size_t vocab = 300;
  const auto logits = values(vocab, 13);
  const std::array<token_count, 2> counts{{{5, 2}, {77, 1}}};
  expect_hash("44e4f62903c6f5ff", [&](context& ctx, hash& results) {
    std::vector<sampling_row> wanted;
    for (std::uint32_t i = 0; i < 32; ++i) {
      sampling_row row;
      row.params = {.temperature = i % 8 == 0 ? 0.0F : 0.7F,
                    .top_k = i % 3 * 20,
                    .top_p = i % 2 == 0 ? 1.0F : 0.9F,
                    .min_p = i % 5 == 0 ? 0.1F : 0.0F,
                    .repetition_penalty = 1.1F,
                    .presence_penalty = 0.2F,
                    .frequency_penalty = 0.3F};
      row.key = {42, i % 2, i, 0};
      row.counts = counts;
      wanted.push_back(row);
    }
    std::vector<sampled_token> sampled(wanted.size());
    sample(ctx, view_of(logits.data(), 1, vocab), wanted, sampled);
    for (const auto& token : sampled) {
      results.add(std::vector{token.token, token.rank});
      results.add(std::vector{token.logprob});
    }
  });
}

} // namespace troupe::kernels
