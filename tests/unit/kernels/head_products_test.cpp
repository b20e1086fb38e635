#include "kernels/head_products.hpp"

#include <gtest/gtest.h>

#include "kernels/coded_bf16.hpp"
#include "kernels/gemm.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t heads = 5;
constexpr std::size_t inputs = 72;
constexpr std::size_t outputs = 40;
// Of a head in the rows of inputs and outputs, which hold other numbers between the heads' and after the
// last.
constexpr std::size_t input_step = 80;
constexpr std::size_t output_step = 56;

struct weight_choice {
  packed_format format;
  row_quant rows = row_quant::none;
};

std::vector<packed_matrix> weights_of(const weight_choice& choice) {
  std::vector<packed_matrix> weights;
  for (std::size_t h = 0; h < heads; ++h) {
    const auto w = random_floats(outputs * inputs, static_cast<unsigned>(20 + h));
    const bool coded = choice.format == packed_format::bf16_coded;
    auto packed = packed_matrix::pack(coded ? packed_format::bf16_pair : choice.format,
                                      view_of(w.data(), outputs, inputs));
    packed.set_rows(choice.rows);
    weights.push_back(coded ? packed_matrix::code(packed).value() : std::move(packed));
  }
  return weights;
}

} // namespace

TEST(head_products, are_products_of_each_head) {
  constexpr std::size_t most_rows = 70;
  const auto x = random_floats(most_rows * heads * input_step, 1);
  for (const weight_choice& choice :
       {weight_choice{packed_format::f32_panel}, weight_choice{packed_format::bf16_pair},
        weight_choice{packed_format::bf16_coded}, weight_choice{packed_format::int8_channel},
        weight_choice{packed_format::int8_channel, row_quant::int8},
        weight_choice{packed_format::int4_group32, row_quant::int8}}) {
    const auto weights = weights_of(choice);
    with_every_context([&](context& ctx) {
      for (const std::size_t rows : {0UL, 1UL, 2UL, 9UL, most_rows}) {
        const auto input = view_of(x.data(), rows, heads * input_step);
        std::vector<float> expected(rows * heads * output_step, poison);
        const auto expected_view = view_of(expected.data(), rows, heads * output_step);
        for (std::size_t h = 0; h < heads; ++h)
          gemm(ctx, {.input = input.columns(h * input_step, inputs),
                     .weight = &weights[h],
                     .output = expected_view.columns(h * output_step, outputs)});
        std::vector<float> got(expected.size(), poison);
        head_products(ctx, {.input = input,
                            .input_step = input_step,
                            .weights = weights,
                            .output = view_of(got.data(), rows, heads * output_step),
                            .output_step = output_step});
        EXPECT_TRUE(same_bits(got, expected))
            << name_of(ctx.instruction_set()) << ' ' << name_of(choice.format) << ' ' << rows << " rows";
      }
    });
  }
}

TEST(head_products, take_and_give_bf16_rows) {
  constexpr std::size_t rows = 3;
  const auto x = rounded(random_floats(rows * heads * input_step, 1));
  const auto wide = widened(x);
  const auto weights = weights_of({packed_format::bf16_pair});
  with_every_context([&](context& ctx) {
    std::vector<float> expected(rows * heads * outputs);
    std::vector<bfloat16> got(expected.size());
    head_products(ctx, {.input = view_of(wide.data(), rows, heads * input_step),
                        .input_step = input_step,
                        .weights = weights,
                        .output = view_of(expected.data(), rows, heads * outputs),
                        .output_step = outputs});
    head_products(ctx, {.input = view_of(x.data(), rows, heads * input_step),
                        .input_step = input_step,
                        .weights = weights,
                        .output = view_of(got.data(), rows, heads * outputs),
                        .output_step = outputs});
    EXPECT_TRUE(same_bits(got, rounded(expected))) << name_of(ctx.instruction_set());
  });
}

TEST(head_products, many_rows_are_as_alone) {
  // So many heads and rows that they are multiplied in several passes.
  constexpr std::size_t many_heads = 64;
  constexpr std::size_t wide = 512;
  constexpr std::size_t rows = 150;
  const auto w = random_floats(16 * wide, 2);
  std::vector<packed_matrix> weights;
  for (std::size_t h = 0; h < many_heads; ++h)
    weights.push_back(packed_matrix::pack(packed_format::bf16_pair, view_of(w.data(), 16, wide)));
  const auto x = random_floats(rows * many_heads * wide, 3);
  thread_pool pool({.threads = 2});
  context ctx(pool, detect());
  const auto run = [&](std::size_t first, std::size_t count) {
    std::vector<float> y(count * many_heads * 16, poison);
    head_products(ctx, {.input = view_of(x.data(), rows, many_heads * wide).slice(first, count),
                        .input_step = wide,
                        .weights = weights,
                        .output = view_of(y.data(), count, many_heads * 16),
                        .output_step = 16});
    return y;
  };
  const auto all = run(0, rows);
  for (const std::size_t r : {0UL, 127UL, 128UL, 149UL})
    EXPECT_TRUE(same_bits(std::span<const float>(run(r, 1)),
                          std::span<const float>(all).subspan(r * many_heads * 16, many_heads * 16)))
        << r;
}

} // namespace troupe::kernels
