#include "kernels/expert_ffn.hpp"

#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

// Small, so that it counts.
constexpr float act_limit = 0.5F;

struct plain_expert {
  packed_matrix gate;
  packed_matrix up;
  packed_matrix down;
};

// Experts of one shape, packed for expert_ffn, and unpacked for the reference made of gemms.
struct experts {
  std::size_t hidden;
  std::size_t ffn;
  dtype type;
  std::vector<expert_weights> packed;
  std::vector<plain_expert> plain;
  std::vector<float> gate_bias;
  std::vector<float> up_bias;
  std::vector<float> down_bias;

  experts(std::size_t count, std::size_t hidden_size, std::size_t ffn_size, dtype row_type, bool gated,
          activation act, bool biased)
      : hidden(hidden_size),
        ffn(ffn_size),
        type(row_type),
        gate_bias(random_floats(ffn_size, 100)),
        up_bias(random_floats(ffn_size, 101)),
        down_bias(random_floats(hidden_size, 102)) {
    const packed_format format = format_for(type);
    for (unsigned e = 0; e < count; ++e) {
      const auto g = random_floats(ffn * hidden, 10 * e + 1, 0.2F);
      const auto u = random_floats(ffn * hidden, 10 * e + 2, 0.2F);
      const auto d = random_floats(hidden * ffn, 10 * e + 3, 0.2F);
      const auto gv = view_of(g.data(), ffn, hidden);
      const auto uv = view_of(u.data(), ffn, hidden);
      const auto dv = view_of(d.data(), hidden, ffn);
      expert_weights weights;
      weights.gate_up = gated ? packed_matrix::pack_gate_up(format, gv, uv) : packed_matrix::pack(format, gv);
      weights.down = packed_matrix::pack(format, dv);
      weights.act = act;
      weights.act_limit = act_limit;
      if (biased) {
        weights.gate_bias = gate_bias.data();
        weights.up_bias = gated ? up_bias.data() : nullptr;
        weights.down_bias = down_bias.data();
      }
      packed.push_back(std::move(weights));
      plain.push_back({packed_matrix::pack(format, gv), packed_matrix::pack(format, uv),
                       packed_matrix::pack(format, dv)});
    }
  }

  // One row through gemm and gated_activation on the reference context.
  tensor reference(context& ctx, std::size_t e, const_tensor_view row) const {
    const expert_weights& w = packed[e];
    tensor gate(dtype::f32, 1, ffn);
    gemm(ctx, {.input = row, .weight = &plain[e].gate, .bias = w.gate_bias, .output = gate.view()});
    tensor h(type, 1, ffn);
    if (w.gated()) {
      tensor up(dtype::f32, 1, ffn);
      gemm(ctx, {.input = row, .weight = &plain[e].up, .bias = w.up_bias, .output = up.view()});
      gated_activation(ctx, w.act, gate.view(), up.view(), h.view(), act_limit);
    } else {
      activate(ctx, w.act, gate.view(), h.view());
    }
    tensor out(type, 1, hidden);
    gemm(ctx, {.input = h.view(), .weight = &plain[e].down, .bias = w.down_bias, .output = out.view()});
    return out;
  }
};

struct batch {
  tensor inputs;
  tensor outputs;
  std::vector<std::vector<const std::byte*>> from;
  std::vector<std::vector<std::byte*>> to;
  std::vector<expert_segment> segments;

  // `rows[i]` rows for expert i, one after the other; row r of the whole is inputs row r % inputs.rows.
  batch(const experts& e, const std::vector<std::size_t>& rows, const std::vector<float>& values)
      : inputs(e.type, values.size() / e.hidden, e.hidden),
        outputs(e.type, std::accumulate(rows.begin(), rows.end(), std::size_t{1}), e.hidden),
        from(rows.size()),
        to(rows.size()) {
    reference_context reference;
    convert_rows(reference.ctx, view_of(values.data(), inputs.view().rows, e.hidden), inputs.view());
    std::size_t r = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows[i]; ++j, ++r) {
        from[i].push_back(inputs.view().row(r % inputs.view().rows));
        to[i].push_back(outputs.view().row(r));
      }
      segments.push_back({&e.packed[i], from[i], to[i]});
    }
    for (std::size_t i = 0; i < outputs.view().rows; ++i)
      std::memset(outputs.view().row(i), 0x77, bytes_of(e.type, e.hidden));
  }

  std::span<const std::byte> output(std::size_t row) {
    return {outputs.view().row(row), bytes_of(outputs.view().type, outputs.view().cols)};
  }
};

} // namespace

TEST(expert_ffn, gives_the_bits_of_separate_products) {
  for (const dtype type : {dtype::bf16, dtype::f32})
    for (const bool gated : {true, false})
      for (const bool biased : {false, true}) {
        // Five and six pairs of panels: some in runs, and a remainder.
        const activation of_gated = biased ? activation::clamped_glu : activation::silu;
        const activation of_plain = biased ? activation::gelu_erf : activation::gelu_tanh;
        const experts e(3, 90, 75, type, gated, gated ? of_gated : of_plain, biased);
        const auto values = random_floats(7 * 90, 50);
        reference_context reference;
        with_every_context([&](context& ctx) {
          batch b(e, {4, 0, 3}, values);
          expert_ffn(ctx, {b.segments, type});
          for (std::size_t r = 0; r < 7; ++r) {
            tensor expected =
                e.reference(reference.ctx, r < 4 ? 0 : 2, const_tensor_view(b.inputs.view()).slice(r, 1));
            EXPECT_EQ(std::memcmp(b.output(r).data(), expected.view().row(0), b.output(r).size()), 0)
                << name_of(ctx.instruction_set()) << ' ' << name_of(type) << " row " << r;
          }
          EXPECT_EQ(b.output(7)[0], std::byte{0x77}); // the row after the last is not touched
        });
      }
}

TEST(expert_ffn, a_row_does_not_depend_on_batch_or_segments) {
  for (const dtype type : {dtype::bf16, dtype::f32}) {
    const experts e(4, 72, 88, type, true, activation::silu, false);
    constexpr std::size_t rows = 512;
    const auto values = random_floats(rows * 72, 51);
    with_every_context([&](context& ctx) {
      // All rows to one expert, then each of some rows alone, then spread over segments of the same expert.
      batch all(e, {rows, 0, 0, 0}, values);
      expert_ffn(ctx, {all.segments, type});
      for (const std::size_t r : {0UL, 1UL, 255UL, 511UL}) {
        std::vector<float> one(values.begin() + static_cast<long>(r * 72),
                               values.begin() + static_cast<long>((r + 1) * 72));
        batch alone(e, {1}, one);
        expert_ffn(ctx, {alone.segments, type});
        EXPECT_TRUE(same_bits(alone.output(0), all.output(r))) << name_of(ctx.instruction_set()) << r;
      }
      batch spread(e, {rows}, values);
      std::vector<expert_segment> segments;
      const std::span<const std::byte* const> from(spread.from[0]);
      const std::span<std::byte* const> to(spread.to[0]);
      for (std::size_t first = 0, length = 1; first < rows; first += length, length = length * 3 + 1) {
        const std::size_t count = std::min(length, rows - first);
        segments.push_back({&e.packed[0], from.subspan(first, count), to.subspan(first, count)});
      }
      expert_ffn(ctx, {segments, type});
      for (std::size_t r = 0; r < rows; ++r)
        ASSERT_TRUE(same_bits(spread.output(r), all.output(r))) << r;
    });
  }
}

TEST(expert_ffn, takes_more_rows_than_one_pass) {
  const experts e(2, 16, 16, dtype::f32, true, activation::silu, false);
  const auto values = random_floats(64 * 16, 52);
  thread_pool pool({.threads = 2});
  context ctx(pool, detect());
  batch b(e, {1500, 3000}, values);
  expert_ffn(ctx, {b.segments, dtype::f32});
  for (std::size_t r = 64; r < 1500; ++r)
    ASSERT_TRUE(same_bits(b.output(r), b.output(r % 64)));
  for (std::size_t r = 1564; r < 4500; ++r)
    ASSERT_TRUE(same_bits(b.output(r), b.output((r - 1564) % 64 + 1500))) << r;
}

TEST(expert_ffn, does_nothing_without_rows) {
  const experts e(2, 16, 16, dtype::bf16, true, activation::silu, false);
  reference_context reference;
  expert_ffn(reference.ctx, {{}, dtype::bf16});
  batch b(e, {0, 0}, random_floats(16, 53));
  expert_ffn(reference.ctx, {b.segments, dtype::bf16});
  EXPECT_EQ(b.output(0)[0], std::byte{0x77});
}

TEST(expert_ffn, does_not_mind_what_scratch_holds) {
  // 40 columns are three panels of 16 in two blocks of 32: the end of the second must not be read
  // uninitialised.
  const experts e(1, 40, 40, dtype::bf16, true, activation::silu, false);
  reference_context reference;
  with_every_context([&](context& ctx) {
    constexpr std::size_t num_bytes = std::size_t{1} << 20;
    std::memset(ctx.shared_scratch(num_bytes), 0xff, num_bytes); // NaN
    for (unsigned thread = 0; thread < ctx.threads(); ++thread)
      std::memset(ctx.thread_scratch(thread, num_bytes), 0xff, num_bytes);
    batch b(e, {3}, random_floats(3 * 40, 56));
    expert_ffn(ctx, {b.segments, dtype::bf16});
    tensor expected = e.reference(reference.ctx, 0, const_tensor_view(b.inputs.view()).slice(1, 1));
    EXPECT_EQ(std::memcmp(b.output(1).data(), expected.view().row(0), 40 * 2), 0);
  });
}

TEST(expert_ffn, shapes_may_differ_between_segments) {
  const experts small(1, 24, 40, dtype::bf16, true, activation::silu, false);
  const experts large(1, 64, 16, dtype::bf16, false, activation::gelu_erf, true);
  reference_context reference;
  with_every_context([&](context& ctx) {
    batch a(small, {3}, random_floats(3 * 24, 54));
    batch b(large, {2}, random_floats(2 * 64, 55));
    const std::vector<expert_segment> both{a.segments[0], b.segments[0]};
    expert_ffn(ctx, {both, dtype::bf16});
    tensor first = small.reference(reference.ctx, 0, const_tensor_view(a.inputs.view()).slice(2, 1));
    tensor second = large.reference(reference.ctx, 0, const_tensor_view(b.inputs.view()).slice(1, 1));
    EXPECT_EQ(std::memcmp(a.output(2).data(), first.view().row(0), 24 * 2), 0);
    EXPECT_EQ(std::memcmp(b.output(1).data(), second.view().row(0), 64 * 2), 0);
  });
}

} // namespace troupe::kernels
