#include "kernels/cuda/weights.hpp"

#include <cstring>

#include "kernels/cuda/dequantize.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

// Bytes of a chunk of a strip.
constexpr std::size_t int8_block_bytes = strip_channels * chunk_inputs;
constexpr std::size_t int4_block_bytes = int8_block_bytes / 2;
constexpr unsigned lanes = 32;
constexpr std::size_t group_inputs = 32; // of a scale as it is stored

void check(const weight_shape& shape, weight_format format, std::size_t integers, std::size_t out_bytes) {
  if (shape.format != format)
    throw kernel_error("cuda weights: the shape names another format");
  if (shape.inputs % lane_run != 0)
    throw kernel_error("cuda weights: inputs are not a multiple of 8");
  if (integers != shape.outputs * shape.inputs || out_bytes != shape.weight_bytes())
    throw kernel_error("cuda weights: sizes do not fit the shape");
}

// The integer of a channel and input, 0 in the padding.
int at(const weight_shape& shape, std::span<const std::int8_t> integers, std::size_t output,
       std::size_t input) {
  return output < shape.outputs && input < shape.inputs ? integers[output * shape.inputs + input] : 0;
}

void store(std::byte* to, std::uint32_t word) {
  std::memcpy(to, &word, sizeof word);
}

// Calls `visit(output, input, block, lane, step, upper)` for the first of every four adjacent inputs that a
// lane multiplies in a step; `block` counts chunks of strips.
template <class Visit>
void for_each_quad(const weight_shape& shape, const Visit& visit) {
  for (std::size_t strip = 0; strip < shape.strips(); ++strip)
    for (std::size_t chunk = 0; chunk < shape.chunks(); ++chunk)
      for (unsigned lane = 0; lane < lanes; ++lane)
        for (unsigned step = 0; step < chunk_steps; ++step)
          for (unsigned upper = 0; upper < 2; ++upper)
            visit(strip * strip_channels + lane_channel(lane, upper),
                  chunk * chunk_inputs + lane_input(lane, step / 2) + 4 * (step % 2),
                  strip * shape.chunks() + chunk, lane, step, upper);
}

} // namespace

const char* name_of(weight_format format) {
  switch (format) {
  case weight_format::bf16:
    return "bf16";
  case weight_format::int8:
    return "int8";
  case weight_format::int4:
    return "int4";
  }
  return "?";
}

void pack_int8(const weight_shape& shape, std::span<const std::int8_t> integers, std::span<std::byte> out) {
  check(shape, weight_format::int8, integers.size(), out.size());
  for_each_quad(shape, [&](std::size_t output, std::size_t input, std::size_t block, unsigned lane,
                           unsigned step, unsigned upper) {
    std::byte* piece = out.data() + block * int8_block_bytes + (step / 2 * lanes + lane) * 16;
    store(piece + (step % 2 * 2 + upper) * 4,
          int8_word(at(shape, integers, output, input), at(shape, integers, output, input + 1),
                    at(shape, integers, output, input + 2), at(shape, integers, output, input + 3)));
  });
}

void pack_int4(const weight_shape& shape, std::span<const std::int8_t> integers, std::size_t group,
               std::span<const std::int8_t> group_scales, std::span<std::byte> out,
               std::span<std::uint32_t> scale_words) {
  check(shape, weight_format::int4, integers.size(), out.size());
  if (group % group_inputs != 0)
    throw kernel_error("cuda weights: groups are not a multiple of 32 inputs");
  const std::size_t groups = group == 0 ? 0 : (shape.inputs + group - 1) / group;
  if (group_scales.size() != shape.outputs * groups || scale_words.size() != shape.group_scale_words())
    throw kernel_error("cuda weights: sizes of group scales do not fit the shape");
  for_each_quad(shape, [&](std::size_t output, std::size_t input, std::size_t block, unsigned lane,
                           unsigned step, unsigned upper) {
    if (upper != 0)
      return; // both channels share a word
    int q[8];
    for (std::size_t i = 0; i < 8; ++i)
      q[i] = at(shape, integers, output + i / 4 * 8, input + i % 4);
    store(out.data() + block * int4_block_bytes + lane * 16 + step * 4, int4_word(q));
  });
  const auto scale = [&](std::size_t output, std::size_t input) -> int {
    if (group == 0)
      return 1;
    return output < shape.outputs && input < shape.inputs ? group_scales[output * groups + input / group] : 0;
  };
  for (std::size_t strip = 0; strip < shape.strips(); ++strip)
    for (std::size_t chunk = 0; chunk < shape.chunks(); ++chunk)
      for (unsigned g = 0; g < 8; ++g) {
        const std::size_t output = strip * strip_channels + g;
        const std::size_t input = chunk * chunk_inputs;
        scale_words[(strip * shape.chunks() + chunk) * 8 + g] =
            int8_word(scale(output, input), scale(output + 8, input), scale(output, input + group_inputs),
                      scale(output + 8, input + group_inputs));
      }
}

} // namespace troupe::kernels::cuda
