#include "tests/gpu/matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/quantize.hpp"

namespace troupe::gpu_check {

namespace {

std::size_t group_of(stored_as how) {
  return how == stored_as::int4_group32 ? 32 : how == stored_as::int4_group64 ? 64 : 0;
}

kernels::cuda::weight_format format_of(stored_as how) {
  switch (how) {
  case stored_as::bf16:
    return kernels::cuda::weight_format::bf16;
  case stored_as::int8:
    return kernels::cuda::weight_format::int8;
  default:
    return kernels::cuda::weight_format::int4;
  }
}

kernels::cuda::weight_shape shape_of(stored_as how, std::size_t outputs, std::size_t inputs) {
  return {format_of(how), outputs, inputs};
}

} // namespace

const char* name_of(stored_as how) {
  switch (how) {
  case stored_as::bf16:
    return "bf16";
  case stored_as::int8:
    return "int8";
  case stored_as::int4:
    return "int4";
  case stored_as::int4_group32:
    return "int4/32";
  case stored_as::int4_group64:
    return "int4/64";
  }
  return "?";
}

test_matrix::test_matrix(session& s, std::size_t out, std::size_t in)
    : outputs(out), inputs(in), values(s.normal(out * in, 1.0F / std::sqrt(static_cast<float>(in)))) {}

kernels::packed_format packed_format_of(stored_as how) {
  switch (how) {
  case stored_as::bf16:
    return kernels::packed_format::bf16_pair;
  case stored_as::int8:
    return kernels::packed_format::int8_channel;
  case stored_as::int4:
    return kernels::packed_format::int4_channel;
  case stored_as::int4_group32:
    return kernels::packed_format::int4_group32;
  case stored_as::int4_group64:
    return kernels::packed_format::int4_group64;
  }
  return kernels::packed_format::bf16_pair;
}

device_matrix::device_matrix(session& s, stored_as how, const test_matrix& from,
                             const std::vector<float>* bias)
    : shape_(shape_of(how, from.outputs, from.inputs)) {
  std::vector<std::byte> bytes(shape_.weight_bytes());
  if (bias != nullptr)
    bias_ = {s.on(), *bias};
  if (how == stored_as::bf16) {
    std::vector<kernels::bfloat16> rounded(from.values.size());
    std::transform(from.values.begin(), from.values.end(), rounded.begin(), kernels::to_bfloat16);
    std::memcpy(bytes.data(), rounded.data(), bytes.size());
    weights_ = {s.on(), bytes};
    return;
  }
  const std::size_t group = group_of(how);
  const std::size_t groups = group == 0 ? 0 : (from.inputs + group - 1) / group;
  std::vector<std::int8_t> integers(from.values.size());
  std::vector<std::int8_t> group_scales(from.outputs * groups);
  std::vector<float> channel_scales(from.outputs);
  for (std::size_t o = 0; o < from.outputs; ++o) {
    const std::span<const float> row(from.values.data() + o * from.inputs, from.inputs);
    std::int8_t* out = integers.data() + o * from.inputs;
    if (how == stored_as::int8)
      channel_scales[o] = kernels::quantize_int8(row, out);
    else if (group == 0)
      channel_scales[o] = kernels::quantize_int4(row, out, s.cpu().instruction_set());
    else
      channel_scales[o] = kernels::quantize_int4_groups(row, group, out, group_scales.data() + o * groups,
                                                        s.cpu().instruction_set());
  }
  std::vector<std::uint32_t> words(shape_.group_scale_words());
  if (how == stored_as::int8)
    kernels::cuda::pack_int8(shape_, integers, bytes);
  else
    kernels::cuda::pack_int4(shape_, integers, group, group_scales, bytes, words);
  weights_ = {s.on(), bytes};
  group_scales_ = {s.on(), words};
  channel_scales_ = {s.on(), channel_scales};
}

device_matrix::device_matrix(session& s, stored_as how, std::size_t outputs, std::size_t inputs)
    : shape_(shape_of(how, outputs, inputs)) {
  // Any bits are weights in int8 and int4; in BF16 those with exponents around 2⁻⁷.
  const bool wide = how == stored_as::bf16;
  std::vector<std::uint64_t> bits(shape_.weight_bytes() / sizeof(std::uint64_t));
  std::generate(bits.begin(), bits.end(), [&] {
    return wide ? (s.random()() & 0x807f'807f'807f'807fU) | 0x3c00'3c00'3c00'3c00U : s.random()();
  });
  std::vector<std::byte> bytes(shape_.weight_bytes());
  std::memcpy(bytes.data(), bits.data(), bytes.size());
  weights_ = {s.on(), bytes};
  if (wide)
    return;
  channel_scales_ = {s.on(), std::vector<float>(outputs, 0x1p-12F)};
  if (how == stored_as::int8)
    return;
  std::vector<std::uint32_t> words(shape_.group_scale_words());
  std::generate(words.begin(), words.end(), [&] { // bytes from −8 to 7, biased
    return static_cast<std::uint32_t>((s.random()() & 0x0f0f'0f0fU) + 0x7878'7878U);
  });
  group_scales_ = {s.on(), words};
}

kernels::cuda::weight_matrix device_matrix::ref() const {
  return {.weights = weights_.data(),
          .group_scales = group_scales_.size() != 0 ? group_scales_.data() : nullptr,
          .channel_scales = channel_scales_.size() != 0 ? channel_scales_.data() : nullptr,
          .bias = bias_.size() != 0 ? bias_.data() : nullptr};
}

test_experts::test_experts(session& s, stored_as how, const expert_shape& shape, std::size_t count)
    : shape_(shape), cpu_(count) {
  const kernels::isa set = s.cpu().instruction_set();
  biases_.reserve(3 * count); // the CPU's experts point into them
  const auto bias = [&](std::size_t length) -> const std::vector<float>* {
    if (!shape.biased)
      return nullptr;
    biases_.push_back(s.normal(length, 0.5F));
    return &biases_.back();
  };
  const auto data_of = [](const std::vector<float>* values) {
    return values != nullptr ? values->data() : nullptr;
  };
  for (kernels::expert_weights& expert : cpu_) {
    const test_matrix gate(s, shape.ffn, shape.hidden);
    const auto* gate_bias = bias(shape.ffn);
    first_.emplace_back(s, how, gate, gate_bias);
    expert.act = shape.act;
    expert.act_limit = shape.act_limit;
    expert.gate_bias = data_of(gate_bias);
    if (shape.gated) {
      const test_matrix up(s, shape.ffn, shape.hidden);
      const auto* up_bias = bias(shape.ffn);
      first_.emplace_back(s, how, up, up_bias);
      expert.up_bias = data_of(up_bias);
      expert.gate_up =
          kernels::packed_matrix::pack_gate_up(packed_format_of(how), gate.view(), up.view(), set);
    } else {
      expert.gate_up = kernels::packed_matrix::pack(packed_format_of(how), gate.view(), set);
    }
    const test_matrix down(s, shape.hidden, shape.ffn);
    const auto* down_bias = bias(shape.hidden);
    second_.emplace_back(s, how, down, down_bias);
    expert.down_bias = data_of(down_bias);
    expert.down = kernels::packed_matrix::pack(packed_format_of(how), down.view(), set);
  }
  for (const device_matrix& matrix : first_)
    first_refs_.push_back(matrix.ref());
  for (const device_matrix& matrix : second_)
    second_refs_.push_back(matrix.ref());
  first_table_ = {s.on(), first_refs_};
  second_table_ = {s.on(), second_refs_};
}

std::vector<kernels::bfloat16> test_experts::expected(session& s, std::span<const kernels::bfloat16> input,
                                                      std::span<const std::uint32_t> from,
                                                      std::span<const std::uint32_t> rows_of_experts) const {
  std::vector<kernels::bfloat16> want(from.size() * shape_.hidden);
  std::vector<const std::byte*> inputs(from.size());
  std::vector<std::byte*> outputs(from.size());
  for (std::size_t r = 0; r < from.size(); ++r) {
    inputs[r] = reinterpret_cast<const std::byte*>(input.data() + from[r] * shape_.hidden);
    outputs[r] = reinterpret_cast<std::byte*>(want.data() + r * shape_.hidden);
  }
  std::vector<kernels::expert_segment> segments;
  std::size_t row = 0;
  for (std::size_t e = 0; e < rows_of_experts.size(); ++e) {
    segments.push_back({&cpu_[e], std::span(inputs).subspan(row, rows_of_experts[e]),
                        std::span(outputs).subspan(row, rows_of_experts[e])});
    row += rows_of_experts[e];
  }
  expert_ffn(s.cpu(), {.segments = segments, .row_type = kernels::dtype::bf16});
  return want;
}

} // namespace troupe::gpu_check
