#include "kernels/calibration_workload.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/gemm.hpp"

namespace troupe::kernels {

namespace {

using clock = std::chrono::steady_clock;

// A visit runs layers for this long, and its fastest run counts. Other programs take processors for
// milliseconds at a time, so some run is undisturbed.
constexpr auto visit_time = std::chrono::microseconds{2500};

// A run longer than this is slow, not interrupted.
constexpr auto long_run = std::chrono::milliseconds{10};

// Longer matrices are cut for measuring sizes: the result would be the same.
constexpr std::size_t most_inputs = 4096;
constexpr std::size_t most_outputs = 8192;

/// Four BF16 numbers around 2⁻⁶, with few exponents, so that they can be coded.
std::uint64_t four_bf16(std::uint64_t bits) {
  return (bits & 0x81ff81ff81ff81ffU) + 0x3b803b803b803b80U;
}

template <class Noise>
void fill_with_bf16(std::span<std::byte> out, Noise& random) {
  for (std::size_t i = 0; i + 8 <= out.size(); i += 8) {
    const std::uint64_t four = four_bf16(random.next());
    std::memcpy(out.data() + i, &four, sizeof four);
  }
}

std::size_t cut(std::size_t value, std::size_t most) {
  return std::min(value, most);
}

} // namespace

/// A cheap source of numbers that look like weights.
class calibration_workload::noise {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15U;
};

std::size_t calibration_workload::layer::num_bytes() const {
  std::size_t sum = 0;
  for (const packed_matrix* matrix : matrices())
    sum += matrix->bytes().size();
  return sum;
}

std::vector<const packed_matrix*> calibration_workload::layer::matrices() const {
  std::vector<const packed_matrix*> matrices;
  if (!expert.down.empty())
    matrices = {&expert.gate_up, &expert.down};
  for (const packed_matrix& matrix : dense)
    matrices.push_back(&matrix);
  return matrices;
}

/// Packed weights with arbitrary values.
packed_matrix calibration_workload::any_weights(const packed_shape& shape, row_quant rows, noise& random) {
  packed_shape plain = shape;
  if (shape.format == packed_format::bf16_coded)
    plain.format = packed_format::bf16_pair;
  buffer memory(plain.bytes());
  if (plain.format == packed_format::bf16_pair) {
    fill_with_bf16(memory.bytes(), random);
  } else if (plain.format == packed_format::f32_panel) {
    for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) { // upper halves are BF16 numbers
      const std::uint64_t two = four_bf16(random.next());
      std::memcpy(memory.data() + i, &two, sizeof two);
    }
  } else {
    for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) {
      const std::uint64_t eight = random.next() & 0x0f0f0f0f0f0f0f0fU; // group scales, too
      std::memcpy(memory.data() + i, &eight, sizeof eight);
    }
    for (std::size_t p = 0; p < shape.panels(); ++p)
      std::fill_n(
          reinterpret_cast<float*>(memory.data() + p * shape.panel_bytes() + shape.panel_scales_offset()),
          panel_columns, 0x1p-10F);
  }
  packed_matrix matrix = packed_matrix::own(plain, std::move(memory));
  if (plain.format != shape.format)
    if (auto coded = packed_matrix::code(matrix))
      matrix = std::move(*coded);
  matrix.set_rows(rows);
  return matrix;
}

calibration_workload::layer calibration_workload::make_layer(const calibration_weights& weights,
                                                             noise& random) {
  layer made;
  if (weights.ffn != 0) {
    const std::size_t hidden = cut(weights.hidden, most_inputs);
    const std::size_t ffn = cut(weights.ffn, most_inputs);
    made.expert.gate_up =
        any_weights({weights.format, ffn, hidden, weights.gated ? 2U : 1U}, weights.rows, random);
    made.expert.down = any_weights({weights.format, hidden, ffn, 1}, weights.rows, random);
  }
  for (const auto& matrix : weights.dense)
    made.dense.push_back(
        any_weights({weights.format, cut(matrix.outputs, most_outputs), cut(matrix.inputs, most_inputs), 1},
                    weights.rows, random));
  return made;
}

calibration_workload::calibration_workload(thread_pool& pool, const calibration_weights& weights,
                                           std::size_t num_bytes)
    : weights_(weights) {
  noise random;
  layers_.push_back(make_layer(weights, random));
  const std::size_t of_layer = std::max<std::size_t>(layers_.front().num_bytes(), 1);
  std::size_t count = std::max<std::size_t>(num_bytes / of_layer, 2);
  if (weights.copies != 0)
    count = std::min(count, weights.copies);
  copy_first(pool, count);
  std::size_t inputs = layers_.front().expert.down.empty() ? 0 : layers_.front().expert.hidden();
  std::size_t outputs = inputs;
  for (const packed_matrix& matrix : layers_.front().dense) {
    inputs = std::max(inputs, matrix.inputs());
    outputs = std::max(outputs, matrix.outputs());
  }
  input_ = buffer(most_calibrated_rows * bytes_of(weights.row_type, inputs));
  fill_input(random);
  output_ = buffer(most_calibrated_rows * bytes_of(dtype::f32, outputs));
  for (std::size_t r = 0; r < most_calibrated_rows; ++r) {
    from_.push_back(input_.data() + r * bytes_of(weights.row_type, inputs));
    to_.push_back(output_.data() + r * bytes_of(dtype::f32, outputs));
  }
}

bool calibration_workload::is_as_asked() const {
  const layer& first = layers_.front();
  return (first.expert.down.empty() || first.expert.down.format() == weights_.format)
         && std::all_of(first.dense.begin(), first.dense.end(),
                        [&](const packed_matrix& matrix) { return matrix.format() == weights_.format; });
}

double calibration_workload::visit(context& ctx, std::size_t rows, double hopeless_seconds) {
  const auto begin = clock::now();
  auto least = clock::duration::max();
  for (auto from = begin;;) {
    run(ctx, rows);
    const auto to = clock::now();
    least = std::min(least, to - from);
    from = to;
    const double seconds = std::chrono::duration<double>(least).count();
    if (to - begin >= visit_time && (seconds <= hopeless_seconds || to - begin >= long_run))
      return seconds;
  }
}

/// Copies the first layer until there are `count`. All threads copy, since first touches of many pages are
/// slow.
void calibration_workload::copy_first(thread_pool& pool, std::size_t count) {
  const std::vector<const packed_matrix*> originals = layers_.front().matrices();
  std::vector<buffer> copies;
  for (std::size_t i = originals.size(); i < count * originals.size(); ++i)
    copies.emplace_back(originals[i % originals.size()]->bytes().size());
  pool.parallel_dynamic(copies.size(), 1, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      std::memcpy(copies[i].data(), originals[i % originals.size()]->bytes().data(), copies[i].size());
  });
  std::vector<layer> layers(count);
  layers.front() = std::move(layers_.front());
  const std::vector<const packed_matrix*> firsts = layers.front().matrices();
  for (std::size_t l = 1; l < count; ++l) {
    const auto copy = [&](std::size_t i) {
      packed_matrix matrix =
          packed_matrix::own(firsts[i]->shape(), std::move(copies[(l - 1) * firsts.size() + i]));
      matrix.set_rows(firsts[i]->rows());
      return matrix;
    };
    std::size_t i = 0;
    if (!layers.front().expert.down.empty()) {
      layers[l].expert.gate_up = copy(i++);
      layers[l].expert.down = copy(i++);
    }
    while (i < firsts.size())
      layers[l].dense.push_back(copy(i++));
  }
  layers_ = std::move(layers);
}

void calibration_workload::fill_input(noise& random) {
  if (weights_.row_type == dtype::bf16) {
    fill_with_bf16(input_.bytes(), random);
    return;
  }
  auto* values = reinterpret_cast<float*>(input_.data());
  for (std::size_t i = 0; i < input_.size() / sizeof(float); ++i)
    values[i] = static_cast<float>(static_cast<std::int32_t>(random.next())) * 0x1p-31F;
}

void calibration_workload::run(context& ctx, std::size_t rows) {
  const layer& at = layers_[next_++ % layers_.size()];
  if (!at.expert.down.empty()) {
    const expert_segment segment{&at.expert, {from_.data(), rows}, {to_.data(), rows}};
    expert_ffn(ctx, {.segments = {&segment, 1}, .row_type = weights_.row_type});
  }
  for (const packed_matrix& matrix : at.dense)
    gemm(ctx, {.input = {input_.data(), weights_.row_type, rows, matrix.inputs(), matrix.inputs()},
               .weight = &matrix,
               .output = {output_.data(), dtype::f32, rows, matrix.outputs(), matrix.outputs()}});
}

} // namespace troupe::kernels
