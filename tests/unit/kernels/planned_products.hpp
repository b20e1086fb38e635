// Products under random plans, compared with the portable reference under its default plan.
#pragma once

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/context.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "tests/unit/kernels/cut_products.hpp"
#include "tests/unit/kernels/random_plan.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

/// Weights of one format, rows, and the reference's results.
class planned_products {
 public:
  explicit planned_products(const cut_weights& kind) : kind_(kind) {
    const auto x = rounded(random_floats(most_rows * hidden, 11));
    x_ = x;
    dense_ = kind.pack(view_of(rounded(random_floats(outputs * hidden, 12, 0.1F)).data(), outputs, hidden));
    const auto gate = rounded(random_floats(ffn * hidden, 13, 0.1F));
    const auto up = rounded(random_floats(ffn * hidden, 14, 0.1F));
    const auto down = rounded(random_floats(hidden * ffn, 15, 0.1F));
    expert_.gate_up = kind.pack_gate_up(view_of(gate.data(), ffn, hidden), view_of(up.data(), ffn, hidden));
    expert_.down = kind.pack(view_of(down.data(), hidden, ffn));
    context ctx(pool_, isa::portable);
    for (const std::size_t rows : {1UL, 3UL, 8UL, 17UL, 40UL, most_rows})
      expected_.push_back({rows, dense(ctx, rows), experts(ctx, rows)});
  }

  /// Compares with `==`, for any plan.
  void expect_same(const kernel_table& own, const kernel_plan& plan, const std::string& name) {
    context ctx(pool_, own, plan);
    for (const auto& [rows, dense_rows, expert_rows] : expected_) {
      ASSERT_TRUE(dense(ctx, rows) == dense_rows)
          << name << ", gemm, " << rows << " rows" << describe(plan, rows);
      ASSERT_TRUE(experts(ctx, rows) == expert_rows)
          << name << ", experts, " << rows << " rows" << describe(plan, rows);
    }
  }

 private:
  static constexpr std::size_t hidden = 360; // nothing is a multiple of 32 that need not be
  static constexpr std::size_t ffn = 200;
  static constexpr std::size_t outputs = 344;
  static constexpr std::size_t most_rows = 130;

  struct rows_and_bits {
    std::size_t rows;
    std::vector<std::uint8_t> dense;
    std::vector<std::uint8_t> experts;
  };

  std::string describe(const kernel_plan& plan, std::size_t rows) const {
    const product_regime& r = plan.regime(dense_, rows);
    return std::string(", ") + name_of(r.set) + " " + name_of(r.kernel) + ", format "
           + std::to_string(static_cast<int>(kind_.format));
  }

  std::vector<std::uint8_t> dense(context& ctx, std::size_t rows) {
    std::vector<float> y(rows * outputs, poison);
    gemm(ctx, {.input = view_of(x_.data(), rows, hidden),
               .weight = &dense_,
               .output = view_of(y.data(), rows, outputs)});
    return bytes(y);
  }

  std::vector<std::uint8_t> experts(context& ctx, std::size_t rows) {
    std::vector<bfloat16> y(rows * hidden);
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (std::size_t r = 0; r < rows; ++r) {
      from.push_back(reinterpret_cast<const std::byte*>(x_.data() + r * hidden));
      to.push_back(reinterpret_cast<std::byte*>(y.data() + r * hidden));
    }
    // Two segments of different lengths: tiles of several regimes follow one another.
    const std::size_t first = rows / 3;
    const std::array segments{
        expert_segment{&expert_, std::span(from).first(first), std::span(to).first(first)},
        expert_segment{&expert_, std::span(from).subspan(first), std::span(to).subspan(first)}};
    expert_ffn(ctx, {segments, dtype::bf16});
    return bytes(y);
  }

  template <class T>
  static std::vector<std::uint8_t> bytes(const std::vector<T>& values) {
    std::vector<std::uint8_t> result(values.size() * sizeof(T));
    std::memcpy(result.data(), values.data(), result.size());
    return result;
  }

  cut_weights kind_;
  thread_pool pool_{{.threads = 2}};
  std::vector<bfloat16> x_;
  packed_matrix dense_;
  expert_weights expert_;
  std::vector<rows_and_bits> expected_;
};

/// @param own  replaces its set's table; mixed with `others`
inline void expect_same_under_drawn_plans(const kernel_table& own, std::vector<const kernel_table*> others,
                                          int plans) {
  others.push_back(&own);
  for (const cut_weights& kind : all_cut_weights) {
    planned_products products(kind);
    for (int seed = 0; seed < plans; ++seed)
      products.expect_same(own, plan_drawer(others, static_cast<std::uint32_t>(seed)).draw(),
                           "plan " + std::to_string(seed));
  }
}

} // namespace troupe::kernels
