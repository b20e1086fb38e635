#include "kernels/self_test_cases.hpp"

#include "kernels/coded_bf16.hpp"
#include "kernels/error.hpp"
#include "kernels/sampling.hpp"

namespace troupe::kernels::proof {

namespace {

float value_at(std::uint32_t stream, std::size_t i) {
  const auto words = philox4x32({static_cast<std::uint32_t>(i), stream, 0, 0}, {1, 2});
  if (words[1] % 61 == 0)
    return 0.0F;
  if (words[1] % 67 == 0)
    return 1e-40F;
  const float unit = static_cast<float>(static_cast<std::int32_t>(words[0])) * (1.0F / 2147483648.0F);
  return unit * static_cast<float>(1U << words[1] % 5);
}

} // namespace

std::vector<float> floats(std::uint32_t stream, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_at(stream, i);
  return values;
}

std::vector<bfloat16> bfloats(std::uint32_t stream, std::size_t count) {
  std::vector<bfloat16> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = to_bfloat16(value_at(stream, i));
  return values;
}

quantized_panels any_weights(std::uint32_t stream, packed_format format, std::size_t outputs,
                             std::size_t inputs) {
  const packed_shape shape{format, outputs, inputs, 1};
  const int4_layout layout = shape.int4();
  quantized_panels result{buffer(shape.bytes()), {}};
  for (std::size_t i = 0; i < shape.bytes(); ++i) {
    const auto word = philox4x32({static_cast<std::uint32_t>(i / 4), stream, 0, 0}, {1, 2})[i % 4];
    const std::size_t at = i % shape.panel_bytes();
    std::byte& byte = result.storage.data()[i];
    if (layout.has_groups() && at % layout.bytes_of_line() < scale_line_bytes) // channel scales are set below
      byte = static_cast<std::byte>(static_cast<int>(word % (2 * max_group_scale + 1)) - max_group_scale);
    else // −128 is no int8 weight
      byte = static_cast<std::byte>(
          format == packed_format::int8_channel && (word & 0xff) == 0x80 ? 0x81 : word & 0xff);
  }
  for (std::size_t panel = 0; panel < shape.panels(); ++panel) {
    auto* scales = reinterpret_cast<float*>(result.storage.data() + panel * shape.panel_bytes()
                                            + shape.panel_scales_offset());
    for (std::size_t column = 0; column < panel_columns; ++column)
      scales[column] = value_at(stream + 1, panel * panel_columns + column);
  }
  const std::byte* data = result.storage.data();
  result.first = {format, data, layout, reinterpret_cast<const float*>(data + shape.panel_scales_offset()),
                  shape.panel_bytes()};
  return result;
}

std::vector<bfloat16> bfloats_with_exceptions(std::uint32_t stream, std::size_t count) {
  auto values = bfloats(stream, count);
  // At a block's first and last place, at neighbouring ones, and in the next block but one.
  for (const std::size_t i :
       {std::size_t{0}, std::size_t{511}, std::size_t{512}, std::size_t{513}, count - 1})
    values[i] = {static_cast<std::uint16_t>((i % 2 == 0 ? 0x6f00 : 0x9f00) + i % 128)};
  return values;
}

coded_panels::coded_panels(const std::vector<bfloat16>& packed, std::size_t blocks)
    : stride(coded_panel_bytes(blocks)), bytes(packed.size() / (blocks * 512) * stride) {
  for (std::size_t panel = 0; panel * stride < bytes.size(); ++panel)
    expect(code_panel(packed.data() + panel * blocks * 512, blocks, bytes.data() + panel * stride),
           "self-test: weights that cannot be coded");
}

} // namespace troupe::kernels::proof
