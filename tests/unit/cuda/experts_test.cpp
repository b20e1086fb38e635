// What a pass through experts refuses; gpu_check checks its results.
#include "kernels/cuda/experts.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

struct refusal {
  std::vector<expert_rows> rows;
  std::size_t hidden = 64;
};

void run(const refusal& what) {
  const stream on;
  const std::vector<weight_matrix> first(4);
  const std::vector<weight_matrix> second(2);
  expert_pass pass({.most_rows = 8, .most_experts = 2, .hidden = 64, .ffn = 32});
  pass.run(on, {.experts = {.hidden = what.hidden,
                            .ffn = 32,
                            .first = first.data(),
                            .first_on_host = first,
                            .second = second.data(),
                            .second_on_host = second},
                .rows = what.rows});
  on.synchronize();
}

} // namespace

TEST(expert_pass, refuses_what_it_has_no_room_for) {
  EXPECT_THROW(run({{{0, 9}}}), kernel_error);
  EXPECT_THROW(run({{{0, 5}, {1, 4}}}), kernel_error);
  EXPECT_THROW(run({{{0, 1}, {1, 1}, {0, 1}}}), kernel_error);
  EXPECT_THROW(run({{{2, 1}}}), kernel_error);
  EXPECT_THROW(run({{{0, 1}}, 128}), kernel_error);
  EXPECT_NO_THROW(run({{{0, 0}, {1, 0}}}));
  EXPECT_NO_THROW(run({}));
}

} // namespace troupe::kernels::cuda
