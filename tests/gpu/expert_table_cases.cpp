#include <algorithm>

#include "kernels/cuda/expert_table.hpp"
#include "kernels/cuda/permute.hpp"
#include "tests/gpu/cases.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

// Checks the table, and with it the permutation of rows and its inverse.
void check(session& s, const std::vector<std::uint32_t>& experts, std::size_t num_experts, std::size_t top_k,
           const std::string& what) {
  const std::size_t pairs = experts.size();
  std::vector<std::uint32_t> offsets(num_experts + 1);
  std::vector<std::uint32_t> entries;
  std::vector<std::uint32_t> positions(pairs, cuda::no_place);
  for (std::uint32_t e = 0; e < num_experts; ++e) {
    offsets[e] = static_cast<std::uint32_t>(entries.size());
    for (std::size_t i = 0; i < pairs; ++i)
      if (experts[i] == e) {
        positions[i] = static_cast<std::uint32_t>(entries.size());
        entries.push_back(static_cast<std::uint32_t>(i));
      }
  }
  offsets[num_experts] = static_cast<std::uint32_t>(entries.size());

  const device_array<std::uint32_t> device_experts(s.on(), experts);
  const device_array<std::uint32_t> got_offsets(s.on(), num_experts + 1);
  const device_array<std::uint32_t> got_entries(s.on(), pairs);
  const device_array<std::uint32_t> got_positions(s.on(), pairs);
  cuda::build_expert_table(s.on(), {.experts = device_experts.data(),
                                    .pairs = pairs,
                                    .num_experts = num_experts,
                                    .offsets = got_offsets.data(),
                                    .entries = got_entries.data(),
                                    .positions = got_positions.data()});
  s.compare_exact(what + ", offsets", got_offsets.download(s.on()), offsets);
  auto got = got_entries.download(s.on());
  got.resize(entries.size());
  s.compare_exact(what + ", entries", got, entries);
  s.compare_exact(what + ", positions", got_positions.download(s.on()), positions);

  const std::size_t hidden = 72;
  const std::size_t rows = pairs / top_k;
  const auto input = s.normal_bf16(rows * hidden);
  const device_array<bfloat16> x(s.on(), input);
  const device_array<bfloat16> y(s.on(), pairs * hidden);
  cuda::permute(s.on(), {.input = x.data(),
                         .input_stride = hidden * sizeof(bfloat16),
                         .num_input_rows = rows,
                         .row_bytes = hidden * sizeof(bfloat16),
                         .entries = got_entries.data(),
                         .divisor = static_cast<std::uint32_t>(top_k),
                         .rows = pairs,
                         .num_valid = got_offsets.data() + num_experts,
                         .output = y.data()});
  std::vector<bfloat16> want;
  for (const std::uint32_t entry : entries) {
    const auto row = input.begin() + static_cast<std::ptrdiff_t>(entry / top_k * hidden);
    want.insert(want.end(), row, row + static_cast<std::ptrdiff_t>(hidden));
  }
  auto rows_got = y.download(s.on());
  rows_got.resize(want.size());
  s.compare_exact(what + ", permuted rows", rows_got, want);
}

std::vector<std::uint32_t> drawn(session& s, std::size_t pairs, std::uint32_t experts,
                                 std::uint32_t left_out_of_100) {
  std::vector<std::uint32_t> ids(pairs);
  std::generate(ids.begin(), ids.end(),
                [&] { return s.below(100) < left_out_of_100 ? cuda::no_place : s.below(experts); });
  return ids;
}

// The table of `rows` rows that go to 8 of 64 experts each, and these rows in its order.
void time_table(session& s, std::size_t rows, std::size_t hidden) {
  const std::size_t pairs = rows * 8;
  const device_array<std::uint32_t> experts(s.on(), drawn(s, pairs, 64, 0));
  const device_array<std::uint32_t> offsets(s.on(), 65);
  const device_array<std::uint32_t> entries(s.on(), pairs);
  s.time("expert_table " + std::to_string(rows) + " rows, 8 of 64",
         {.bytes = static_cast<double>(pairs * 8), .flops = 0.0}, 1, [&](std::size_t) {
           cuda::build_expert_table(s.on(), {.experts = experts.data(),
                                             .pairs = pairs,
                                             .num_experts = 64,
                                             .offsets = offsets.data(),
                                             .entries = entries.data()});
         });
  const std::size_t row_bytes = hidden * sizeof(bfloat16);
  const device_array<bfloat16> x(s.on(), s.normal_bf16(rows * hidden));
  const device_array<bfloat16> y(s.on(), pairs * hidden);
  s.time("permute " + std::to_string(rows) + " rows of " + std::to_string(hidden) + ", 8 times each",
         {.bytes = static_cast<double>((rows + pairs) * row_bytes), .flops = 0.0}, 1, [&](std::size_t) {
           cuda::permute(s.on(), {.input = x.data(),
                                  .input_stride = row_bytes,
                                  .num_input_rows = rows,
                                  .row_bytes = row_bytes,
                                  .entries = entries.data(),
                                  .divisor = 8,
                                  .rows = pairs,
                                  .num_valid = offsets.data() + 64,
                                  .output = y.data()});
         });
}

} // namespace

void check_expert_table(session& s) {
  if (!s.begin("expert_table"))
    return;
  check(s, {0}, 1, 1, "one pair");
  check(s, {}, 3, 1, "no pairs");
  check(s, drawn(s, 66, 5, 0), 5, 2, "33 rows, 2 of 5");
  check(s, drawn(s, 90, 7, 30), 7, 3, "30 rows, 3 of 7, some left out");
  check(s, std::vector<std::uint32_t>(50, 2), 4, 1, "all rows to one expert");
  check(s, std::vector<std::uint32_t>(40, cuda::no_place), 4, 1, "all rows left out");
  const std::size_t rows = s.options().small ? 40 : 4096;
  if (!s.options().small) {
    check(s, drawn(s, rows * 8, 64, 0), 64, 8, "4096 rows, 8 of 64");
    check(s, drawn(s, 8 * 257, 256, 5), 256, 8, "257 rows, 8 of 256, some left out");
  }
  if (s.options().times)
    time_table(s, rows, s.options().small ? 64 : 2048);
}

} // namespace troupe::gpu_check
