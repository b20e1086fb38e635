#include "kernels/embedding.hpp"

#include <algorithm>

#include "kernels/cuda/embedding.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/matrices.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

template <class T>
void check(session& s, const std::vector<T>& table, dtype type, std::size_t vocab, std::size_t hidden,
           const std::vector<float>& scales, bool has_positions = false) {
  const std::size_t num_positions = 77;
  const std::size_t rows = s.options().small ? 5 : 129;
  std::vector<std::uint32_t> tokens(rows);
  std::generate(tokens.begin(), tokens.end(), [&] { return s.below(static_cast<std::uint32_t>(vocab)); });
  tokens.back() = static_cast<std::uint32_t>(vocab - 1);
  std::vector<float> want(rows * hidden);
  const float* row_scales = scales.empty() ? nullptr : scales.data();
  embed(s.cpu(), {reinterpret_cast<const std::byte*>(table.data()), type, vocab, hidden, hidden}, tokens,
        view_of(want.data(), rows, hidden), 1.25F, row_scales);
  const auto position_table = s.normal(has_positions ? num_positions * hidden : 0);
  std::vector<std::uint32_t> positions(rows);
  std::generate(positions.begin(), positions.end(), [&] { return s.below(num_positions); });
  positions.back() = num_positions - 1;
  if (has_positions)
    add_positions(s.cpu(), view_of(position_table.data(), num_positions, hidden), positions,
                  view_of(want.data(), rows, hidden));
  const device_array<float> device_position_table(s.on(), position_table);
  const device_array<std::uint32_t> device_positions(s.on(), positions);
  const device_array<T> device_table(s.on(), table);
  const device_array<float> device_scales(s.on(), scales);
  const device_array<std::uint32_t> device_tokens(s.on(), tokens);
  const device_array<float> y(s.on(), rows * hidden);
  cuda::embed(s.on(), {.table = device_table.data(),
                       .type = type,
                       .vocab = vocab,
                       .hidden = hidden,
                       .row_scales = row_scales != nullptr ? device_scales.data() : nullptr,
                       .scale = 1.25F,
                       .tokens = device_tokens.data(),
                       .rows = rows,
                       .position_table = has_positions ? device_position_table.data() : nullptr,
                       .num_positions = num_positions,
                       .positions = device_positions.data(),
                       .output = y.data()});
  s.compare_exact(name_of(type) + std::string{has_positions ? " with positions" : ""}, y.download(s.on()),
                  want);
}

// Rows of a table that the L2 cache does not hold; other tokens each time.
void time_embedding(session& s, std::size_t rows) {
  const std::size_t vocab = s.options().small ? 100 : 65536;
  const std::size_t hidden = s.options().small ? 64 : 2048;
  const std::size_t sets = s.sets_of(rows * hidden * sizeof(bfloat16));
  const device_matrix table(s, stored_as::bf16, vocab, hidden);
  std::vector<std::uint32_t> ids(sets * rows);
  std::generate(ids.begin(), ids.end(), [&] { return s.below(static_cast<std::uint32_t>(vocab)); });
  const device_array<std::uint32_t> tokens(s.on(), ids);
  const device_array<float> y(s.on(), rows * hidden);
  s.time("embedding " + std::to_string(rows) + " rows of " + std::to_string(hidden),
         {.bytes = static_cast<double>(6 * rows * hidden), .flops = 0.0}, sets, [&](std::size_t set) {
           cuda::embed(s.on(), {.table = table.ref().weights,
                                .vocab = vocab,
                                .hidden = hidden,
                                .tokens = tokens.data() + set * rows,
                                .rows = rows,
                                .output = y.data()});
         });
}

} // namespace

void check_embedding(session& s) {
  if (!s.begin("embedding"))
    return;
  const std::size_t vocab = 301;
  const std::size_t hidden = s.options().small ? 72 : 1031;
  check(s, s.normal(vocab * hidden), dtype::f32, vocab, hidden, {});
  check(s, s.normal_bf16(vocab * hidden), dtype::bf16, vocab, hidden, {});
  check(s, s.normal_bf16(vocab * hidden), dtype::bf16, vocab, hidden, {}, true);
  std::vector<std::int8_t> integers(vocab * hidden);
  std::generate(integers.begin(), integers.end(),
                [&] { return static_cast<std::int8_t>(static_cast<int>(s.below(255)) - 127); });
  check(s, integers, dtype::int8, vocab, hidden, s.normal(vocab, 0.01F));
  if (!s.options().times)
    return;
  for (const std::size_t timed : {64U, 4096U})
    time_embedding(s, s.options().small ? 2 : timed);
}

} // namespace troupe::gpu_check
