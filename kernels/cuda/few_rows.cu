#include "kernels/cuda/few_rows.hpp"

#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/dequantize.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned split_warps = 8; // that share the inputs of a strip: part of the definition of the result

// Multiprocessors of H100 and H200: fewer blocks leave some without work.
constexpr std::size_t multiprocessors = 132;

// Strips of weights that meet each piece of the rows once it is loaded. Rows come from L2 again for every
// block, some 1.6 times as fast as weights come from memory: with 32 rows and one strip of 16 channels in
// BF16 they would be twice the bytes of the weights, with int4 eight times.
constexpr unsigned strips_for(weight_format format, unsigned tiles, unsigned matrices) {
  const unsigned parts = format == weight_format::int4 || tiles == 4 ? 4 : 2;
  return parts / matrices;
}

// Chunks that are loaded before the first is multiplied: some 2 KiB of weights in flight for each warp and
// strip.
constexpr unsigned chunks_in_flight(weight_format format) {
  return format == weight_format::bf16 ? 1 : 2;
}

// One lane's weights of a chunk: loaded, and made BF16 a step at a time.
template <weight_format Format>
struct lane_weights;

template <>
struct lane_weights<weight_format::bf16> {
  bits128 run[2][2]; // [channel][half]

  __device__ void load(const weight_shape& shape, const weight_matrix& matrix, std::size_t strip,
                       std::size_t chunk, unsigned lane) {
    TROUPE_UNROLL
    for (unsigned upper = 0; upper < 2; ++upper)
      TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      const std::size_t output = strip * strip_channels + lane_channel(lane, upper);
      const std::size_t input = chunk * chunk_inputs + lane_input(lane, half);
      run[upper][half] = {};
      if (output < shape.outputs && input < shape.inputs)
        run[upper][half] =
            load_once(static_cast<const bfloat16*>(matrix.weights) + output * shape.inputs + input);
    }
  }

  __device__ void step(unsigned s, std::uint32_t (&a)[4]) const {
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      a[i] = run[i % 2][s / 2].word[s % 2 * 2 + i / 2];
  }
};

template <>
struct lane_weights<weight_format::int8> {
  bits128 half[2];

  __device__ void load(const weight_shape& shape, const weight_matrix& matrix, std::size_t strip,
                       std::size_t chunk, unsigned lane) {
    const auto* block = static_cast<const bits128*>(matrix.weights) + (strip * shape.chunks() + chunk) * 64;
    half[0] = load_once(block + lane);
    half[1] = load_once(block + 32 + lane);
  }

  __device__ void step(unsigned s, std::uint32_t (&a)[4]) const {
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      a[i] = int8_pair(half[s / 2].word[s % 2 * 2 + i % 2], i / 2);
  }
};

template <>
struct lane_weights<weight_format::int4> {
  bits128 words;
  std::uint32_t scales;

  __device__ void load(const weight_shape& shape, const weight_matrix& matrix, std::size_t strip,
                       std::size_t chunk, unsigned lane) {
    const std::size_t block = strip * shape.chunks() + chunk;
    words = load_once(static_cast<const bits128*>(matrix.weights) + block * 32 + lane);
    scales = matrix.group_scales[block * 8 + lane / 4];
  }

  __device__ void step(unsigned s, std::uint32_t (&a)[4]) const {
    const std::uint32_t pair = int8_pair(scales, s / 2); // of channels g and g + 8
    const int4_scale lower = int4_scale_of(both_lower(pair));
    const int4_scale upper = int4_scale_of(both_upper(pair));
    a[0] = int4_pair(words.word[s], 0, lower);
    a[1] = int4_pair(words.word[s], 2, upper);
    a[2] = int4_pair(words.word[s], 1, lower);
    a[3] = int4_pair(words.word[s], 3, upper);
  }
};

// Adds the warps' sums of 16 channels, in order, and writes them: scale, bias, activation.
template <unsigned Matrices, unsigned Rows>
__device__ void finish_strip(const few_rows_args& args, const weight_matrix (&matrix)[Matrices],
                             const row_item& item, std::size_t strip,
                             const float (&partial)[split_warps][Matrices][Rows][strip_channels]) {
  for (unsigned at = threadIdx.x; at < item.rows * strip_channels; at += blockDim.x) {
    const unsigned r = at / static_cast<unsigned>(strip_channels);
    const unsigned channel = at % static_cast<unsigned>(strip_channels);
    const std::size_t output = strip * strip_channels + channel;
    if (output >= args.shape.outputs)
      continue;
    float value[Matrices];
    for (unsigned m = 0; m < Matrices; ++m) {
      float sum = partial[0][m][r][channel];
      for (unsigned w = 1; w < split_warps; ++w)
        sum += partial[w][m][r][channel];
      if (matrix[m].channel_scales != nullptr)
        sum *= matrix[m].channel_scales[output];
      if (matrix[m].bias != nullptr)
        sum += matrix[m].bias[output];
      value[m] = sum;
    }
    float y = value[0];
    if constexpr (Matrices == 2)
      y = activated(args.act, value[0]) * value[1];
    else if (args.result == few_rows_result::activate)
      y = activated(args.act, y);
    const std::size_t to = (item.first_row + r) * args.output_stride + output;
    if (args.output_type == dtype::bf16)
      static_cast<bfloat16*>(args.output)[to] = round_bf16(y);
    else if (args.result == few_rows_result::add)
      static_cast<float*>(args.output)[to] += y;
    else
      static_cast<float*>(args.output)[to] = y;
  }
}

// A block makes `Strips` times 16 output channels of one item: x = strips, y = item. Eight warps share the
// inputs.
template <weight_format Format, unsigned Tiles, unsigned Matrices, unsigned Strips>
__global__ void __launch_bounds__(split_warps * 32)
    few_rows_kernel(few_rows_args args, std::size_t first_item) {
  constexpr unsigned rows_of_block = Tiles * tile_rows;
  constexpr unsigned depth = chunks_in_flight(Format);
  __shared__ float partial[split_warps][Matrices][rows_of_block][strip_channels];
  const row_item item = args.items[first_item + blockIdx.y];
  if (item.rows == 0)
    return;
  const std::size_t first_strip = std::size_t{blockIdx.x} * Strips;
  const unsigned lane = lane_index();
  TROUPE_DEVICE_CHECK(item.rows <= rows_of_block);
  TROUPE_DEVICE_CHECK((item.matrix + 1) * Matrices <= args.num_matrices);
  TROUPE_DEVICE_CHECK(item.first_row + item.rows <= args.num_output_rows);

  weight_matrix matrix[Matrices];
  for (unsigned m = 0; m < Matrices; ++m)
    matrix[m] = args.matrices[item.matrix * Matrices + m];
  const bfloat16* rows[Tiles];
  for (unsigned t = 0; t < Tiles; ++t) {
    const unsigned r = t * static_cast<unsigned>(tile_rows) + lane_row(lane);
    rows[t] = nullptr;
    if (r < item.rows) {
      const std::size_t from =
          args.input_rows != nullptr ? args.input_rows[item.first_row + r] : item.first_row + r;
      TROUPE_DEVICE_CHECK(from < args.num_input_rows);
      rows[t] = args.input + from * args.input_stride;
    }
  }

  float sums[Strips][Matrices][Tiles][4] = {};
  for (std::size_t base = warp_index(); base < args.shape.chunks(); base += split_warps * depth) {
    lane_weights<Format> weights[depth][Strips][Matrices];
    bits128 x[depth][Tiles][2];
    TROUPE_UNROLL
    for (unsigned d = 0; d < depth; ++d) {
      const std::size_t chunk = base + d * split_warps;
      if (chunk >= args.shape.chunks())
        break;
      TROUPE_UNROLL
      for (unsigned strip = 0; strip < Strips; ++strip)
        TROUPE_UNROLL
      for (unsigned m = 0; m < Matrices; ++m)
        if (first_strip + strip < args.shape.strips())
          weights[d][strip][m].load(args.shape, matrix[m], first_strip + strip, chunk, lane);
      TROUPE_UNROLL
      for (unsigned t = 0; t < Tiles; ++t)
        TROUPE_UNROLL
      for (unsigned half = 0; half < 2; ++half) {
        const std::size_t input = chunk * chunk_inputs + lane_input(lane, half);
        x[d][t][half] = {};
        if (rows[t] != nullptr && input < args.shape.inputs)
          x[d][t][half] = load_again(rows[t] + input);
      }
    }
    TROUPE_UNROLL
    for (unsigned d = 0; d < depth; ++d) {
      if (base + d * split_warps >= args.shape.chunks())
        break;
      TROUPE_UNROLL
      for (unsigned s = 0; s < chunk_steps; ++s)
        TROUPE_UNROLL
      for (unsigned strip = 0; strip < Strips; ++strip)
        TROUPE_UNROLL
      for (unsigned m = 0; m < Matrices; ++m) {
        std::uint32_t a[4];
        weights[d][strip][m].step(s, a);
        TROUPE_UNROLL
        for (unsigned t = 0; t < Tiles; ++t)
          multiply_add(sums[strip][m][t], a, x[d][t][s / 2].word[s % 2 * 2],
                       x[d][t][s / 2].word[s % 2 * 2 + 1]);
      }
    }
  }

  TROUPE_UNROLL
  for (unsigned strip = 0; strip < Strips; ++strip) {
    TROUPE_UNROLL
    for (unsigned m = 0; m < Matrices; ++m)
      TROUPE_UNROLL
    for (unsigned t = 0; t < Tiles; ++t)
      TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      partial[warp_index()][m][t * tile_rows + result_row(lane, i)][result_channel(lane, i)] =
          sums[strip][m][t][i];
    block_barrier();
    if (first_strip + strip < args.shape.strips())
      finish_strip(args, matrix, item, first_strip + strip, partial);
    block_barrier();
  }
}

template <weight_format Format, unsigned Tiles, unsigned Matrices, unsigned Strips>
void start(const stream& on, const few_rows_args& args) {
  for (std::size_t first = 0; first < args.num_items; first += most_grid_yz) {
    const std::size_t items = args.num_items - first < most_grid_yz ? args.num_items - first : most_grid_yz;
    launch("few_rows", on,
           {.blocks_x = (args.shape.strips() + Strips - 1) / Strips,
            .blocks_y = items,
            .threads = split_warps * 32},
           few_rows_kernel<Format, Tiles, Matrices, Strips>, args, first);
  }
}

template <weight_format Format, unsigned Tiles, unsigned Matrices>
void start(const stream& on, const few_rows_args& args) {
  constexpr unsigned strips = strips_for(Format, Tiles, Matrices);
  if (strips > 1 && args.shape.strips() / strips * args.num_items >= multiprocessors)
    start<Format, Tiles, Matrices, strips>(on, args);
  else
    start<Format, Tiles, Matrices, 1>(on, args);
}

template <weight_format Format, unsigned Matrices>
void start(const stream& on, const few_rows_args& args) {
  if (args.most_rows <= tile_rows)
    start<Format, 1, Matrices>(on, args);
  else if (args.most_rows <= 2 * tile_rows)
    start<Format, 2, Matrices>(on, args);
  else
    start<Format, 4, Matrices>(on, args);
}

template <weight_format Format>
void start(const stream& on, const few_rows_args& args) {
  if (args.result == few_rows_result::activate_gated)
    start<Format, 2>(on, args);
  else
    start<Format, 1>(on, args);
}

} // namespace

void few_rows(const stream& on, const few_rows_args& args) {
  expect(args.shape.inputs % lane_run == 0 && args.input_stride % lane_run == 0,
         "cuda few_rows: inputs are not a multiple of 8");
  expect(args.most_rows <= most_few_rows, "cuda few_rows: more than 32 rows in an item");
  expect(args.output_type == dtype::bf16 || args.output_type == dtype::f32,
         "cuda few_rows: output is not f32 or bf16");
  expect(args.result != few_rows_result::add || args.output_type == dtype::f32,
         "cuda few_rows: only f32 outputs add up");
  switch (args.shape.format) {
  case weight_format::bf16:
    start<weight_format::bf16>(on, args);
    break;
  case weight_format::int8:
    start<weight_format::int8>(on, args);
    break;
  case weight_format::int4:
    start<weight_format::int4>(on, args);
    break;
  }
}

} // namespace troupe::kernels::cuda
