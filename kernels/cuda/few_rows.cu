#include "kernels/cuda/few_rows.hpp"

#include "kernels/cuda/finish_output.cuh"
#include "kernels/cuda/lane_weights.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_products.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned split_warps = input_shares; // that share the inputs of a strip

// Blocks that occupy nearly all of the 132 multiprocessors of H100 and H200.
constexpr std::size_t enough_blocks = 112;

// Most strips of weights that use each piece of the rows once it is loaded. Every block loads the rows from
// L2, some 1.6 times as fast as weights come from memory: with 32 rows and one strip of 16 channels they
// would be twice the bytes of BF16 weights, and eight times those of int4.
constexpr unsigned most_strips(weight_format format, unsigned tiles, unsigned matrices) {
  const unsigned parts = format != weight_format::int4 ? (tiles == 4 ? 4 : 2) : (tiles == 4 ? 8 : 4);
  return parts / matrices;
}

// Chunks that are loaded before the first is multiplied: 2 KiB of weights in flight for each warp and strip;
// 1 KiB if there are many strips.
constexpr unsigned chunks_in_flight(weight_format format, unsigned parts) {
  return format == weight_format::bf16 || parts >= 8 ? 1 : 2;
}

// Distance of rows of partial sums in shared memory: lanes that store together use all banks.
constexpr std::size_t partial_stride = strip_channels + 4;

// Adds the warps' sums of 16 channels, in order, and writes them: scale, bias, activation.
template <unsigned Matrices, unsigned Rows>
__device__ void finish_strip(const few_rows_args& args, const weight_matrix (&matrix)[Matrices],
                             const row_item& item, std::size_t strip,
                             const float (&partial)[split_warps][Matrices][Rows][partial_stride]) {
  for (unsigned at = threadIdx.x; at < item.rows * strip_channels; at += blockDim.x) {
    const unsigned r = at / static_cast<unsigned>(strip_channels);
    const unsigned channel = at % static_cast<unsigned>(strip_channels);
    const std::size_t output = strip * strip_channels + channel;
    if (output >= args.shape.outputs)
      continue;
    float sums[Matrices];
    for (unsigned m = 0; m < Matrices; ++m) {
      sums[m] = partial[0][m][r][channel];
      for (unsigned w = 1; w < split_warps; ++w)
        sums[m] += partial[w][m][r][channel];
    }
    finish_output(args, matrix, row_of(args, item, r), output, sums);
  }
}

// A block computes `Strips` times 16 output channels of one item: x = strips, y = item. Eight warps share the
// inputs.
template <weight_format Format, unsigned Tiles, unsigned Matrices, unsigned Strips>
__global__ void __launch_bounds__(split_warps * 32)
    few_rows_kernel(few_rows_args args, std::size_t first_item) {
  constexpr unsigned rows_of_block = Tiles * tile_rows;
  constexpr unsigned depth = chunks_in_flight(Format, Strips * Matrices);
  __shared__ float partial[split_warps][Matrices][rows_of_block][partial_stride];
  const row_item item = args.items[first_item + blockIdx.y];
  if (item.rows == 0)
    return;
  const std::size_t first_strip = std::size_t{blockIdx.x} * Strips;
  const unsigned lane = lane_index();
  TROUPE_DEVICE_CHECK(item.rows <= rows_of_block);
  TROUPE_DEVICE_CHECK((item.matrix + 1) * Matrices <= args.num_matrices);
  TROUPE_DEVICE_CHECK(row_of(args, item, item.rows - 1) < args.num_output_rows);

  weight_matrix matrix[Matrices];
  for (unsigned m = 0; m < Matrices; ++m)
    matrix[m] = args.matrices[item.matrix * Matrices + m];
  const bfloat16* rows[Tiles];
  for (unsigned t = 0; t < Tiles; ++t) {
    const unsigned r = t * static_cast<unsigned>(tile_rows) + lane_row(lane);
    rows[t] = nullptr;
    if (r < item.rows) {
      const std::size_t row = row_of(args, item, r);
      const std::size_t from = args.input_rows != nullptr ? args.input_rows[row] : row;
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

// As many strips per block as leave enough blocks.
template <weight_format Format, unsigned Tiles, unsigned Matrices, unsigned Strips>
void start_strips(const stream& on, const few_rows_args& args) {
  if constexpr (Strips > 1) {
    if ((args.shape.strips() + Strips - 1) / Strips * args.num_items < enough_blocks) {
      start_strips<Format, Tiles, Matrices, Strips / 2>(on, args);
      return;
    }
  }
  start<Format, Tiles, Matrices, Strips>(on, args);
}

template <weight_format Format, unsigned Matrices>
void start(const stream& on, const few_rows_args& args) {
  if (args.most_rows <= tile_rows)
    start_strips<Format, 1, Matrices, most_strips(Format, 1, Matrices)>(on, args);
  else if (args.most_rows <= 2 * tile_rows)
    start_strips<Format, 2, Matrices, most_strips(Format, 2, Matrices)>(on, args);
  else
    start_strips<Format, 4, Matrices, most_strips(Format, 4, Matrices)>(on, args);
}

} // namespace

void few_rows(const stream& on, const few_rows_args& args) {
  check_row_products("few_rows", args, most_few_rows);
  with_constants_of(args, [&](auto format, auto matrices) { start<format(), matrices()>(on, args); });
}

} // namespace troupe::kernels::cuda
