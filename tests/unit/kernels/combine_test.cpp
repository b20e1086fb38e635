#include "kernels/combine.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(combine, adds_slots_in_order_into_the_residual) {
  constexpr std::size_t rows = 19;
  constexpr std::size_t top_k = 3;
  constexpr std::size_t hidden = 1037;
  const auto outputs = rounded(random_floats(rows * top_k * hidden, 1));
  const auto weights = random_floats(rows * top_k, 2);
  const auto residual = random_floats(rows * hidden, 3);
  std::vector<const std::byte*> pointers;
  for (std::size_t i = 0; i < rows * top_k; ++i)
    pointers.push_back(reinterpret_cast<const std::byte*>(outputs.data() + i * hidden));
  pointers[4] = nullptr;                             // row 1 misses its middle slot
  pointers[6] = pointers[7] = pointers[8] = nullptr; // row 2 has none
  with_every_context([&](context& ctx) {
    std::vector<float> y = residual;
    combine(ctx, {.rows = pointers,
                  .weights = weights,
                  .top_k = top_k,
                  .row_type = dtype::bf16,
                  .residual = view_of(y.data(), rows, hidden)});
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < hidden; ++i) {
        float sum = 0.0F;
        bool first = true;
        for (std::size_t s = 0; s < top_k; ++s) {
          if (pointers[r * top_k + s] == nullptr)
            continue;
          const float value = to_float(outputs[(r * top_k + s) * hidden + i]);
          sum = first ? weights[r * top_k + s] * value : std::fma(weights[r * top_k + s], value, sum);
          first = false;
        }
        ASSERT_EQ(y[r * hidden + i], first ? residual[r * hidden + i] : residual[r * hidden + i] + sum);
      }
  });
}

TEST(add_shared_expert, gates_with_a_sigmoid) {
  constexpr std::size_t rows = 6;
  constexpr std::size_t hidden = 77;
  const auto input = rounded(random_floats(rows * hidden, 4));
  const auto gate = random_floats(hidden, 5, 0.2F);
  const auto shared = rounded(random_floats(rows * hidden, 6));
  const auto residual = random_floats(rows * hidden, 7);
  reference_context reference;
  std::vector<float> expected = residual;
  const auto run = [&](context& ctx, const float* weights, std::vector<float>& y, float factor = 1.0F) {
    add_shared_expert(ctx, {.input = view_of(input.data(), rows, hidden),
                            .gate = weights,
                            .factor = factor,
                            .shared = view_of(shared.data(), rows, hidden),
                            .residual = view_of(y.data(), rows, hidden)});
  };
  run(reference.ctx, gate.data(), expected);
  for (std::size_t r = 0; r < rows; ++r) {
    double logit = 0.0;
    for (std::size_t i = 0; i < hidden; ++i)
      logit += static_cast<double>(to_float(input[r * hidden + i])) * static_cast<double>(gate[i]);
    for (std::size_t i = 0; i < hidden; ++i) {
      const double want = static_cast<double>(residual[r * hidden + i])
                          + static_cast<double>(to_float(shared[r * hidden + i])) / (1.0 + std::exp(-logit));
      EXPECT_NEAR(static_cast<double>(expected[r * hidden + i]), want, 2e-6);
    }
  }
  with_every_context([&](context& ctx) {
    std::vector<float> y = residual;
    run(ctx, gate.data(), y);
    EXPECT_TRUE(same_bits(y, expected));
    y = residual;
    run(ctx, nullptr, y);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], residual[i] + to_float(shared[i]));
    y = residual;
    run(ctx, nullptr, y, 0.22F);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], std::fma(0.22F, to_float(shared[i]), residual[i]));
    // A power of two commutes with the gate's rounding.
    y = residual;
    run(ctx, gate.data(), y, 0.5F);
    std::vector<float> doubled(residual.size());
    std::transform(residual.begin(), residual.end(), doubled.begin(), [](float x) { return 2.0F * x; });
    run(ctx, gate.data(), doubled);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(2.0F * y[i], doubled[i]);
  });
}

} // namespace troupe::kernels
