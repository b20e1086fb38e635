#include "kernels/cuda/tiled_rows.hpp"

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/finish_output.cuh"
#include "kernels/cuda/lane_weights.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/row_products.hpp"

namespace troupe::kernels::cuda {

namespace {

// A block: 8 strips of 16 channels, 128 rows. Its 8 warps: 4 pairs of strips times 2 halves of the rows.
constexpr unsigned block_strips = 8;
constexpr unsigned warp_strips = 2;
constexpr unsigned channel_warps = block_strips / warp_strips;
constexpr unsigned row_warps = 2;
constexpr unsigned tile_threads = channel_warps * row_warps * warp_lanes;
constexpr unsigned warp_tiles = most_tiled_rows / row_warps / tile_rows; // of 8 rows
constexpr unsigned stages = 4;                                           // of the ring of chunks
constexpr unsigned chunk_pieces = chunk_inputs / lane_run;               // of 16 bytes of BF16

// Row-major BF16, 128 bytes per row of 64 inputs. Odd rows have swapped halves, so that the eight lanes that
// load two rows together use all banks.
struct bf16_rows {
  bits128 pieces[most_tiled_rows][chunk_pieces];

  __device__ bits128& at(unsigned row, unsigned piece) { return pieces[row][piece ^ (row % 2 * 4)]; }

  const __device__ bits128& at(unsigned row, unsigned piece) const {
    return pieces[row][piece ^ (row % 2 * 4)];
  }
};

// A chunk of the block's strips in shared memory. `copy` starts copying one strip, by all threads that call
// it with their own `part` of `parts_of_strip`; `of_lane` reads a lane's weights.
template <weight_format Format>
struct strip_chunks;

template <>
struct strip_chunks<weight_format::bf16> {
  static constexpr unsigned parts_of_strip = strip_channels * chunk_pieces;

  bf16_rows channels;

  __device__ void copy(const weight_shape& shape, const weight_matrix& matrix, unsigned to_strip,
                       std::size_t strip, std::size_t chunk, unsigned part) {
    const unsigned channel = part / chunk_pieces;
    const unsigned piece = part % chunk_pieces;
    const std::size_t output = strip * strip_channels + channel;
    const std::size_t input = chunk * chunk_inputs + piece * lane_run;
    const bool wanted = output < shape.outputs && input < shape.inputs;
    const auto* from = static_cast<const bfloat16*>(matrix.weights);
    copy_async<16>(&channels.at(to_strip * static_cast<unsigned>(strip_channels) + channel, piece),
                   wanted ? from + output * shape.inputs + input : from, wanted);
  }

  __device__ lane_weights<weight_format::bf16> of_lane(unsigned strip, unsigned lane) const {
    lane_weights<weight_format::bf16> weights;
    TROUPE_UNROLL
    for (unsigned upper = 0; upper < 2; ++upper)
      TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half)
      weights.run[upper][half] =
          channels.at(strip * static_cast<unsigned>(strip_channels) + lane_channel(lane, upper),
                      lane_input(lane, half) / static_cast<unsigned>(lane_run));
    return weights;
  }
};

template <>
struct strip_chunks<weight_format::int8> {
  static constexpr unsigned parts_of_strip = 64;

  bits128 strips[block_strips][parts_of_strip];

  __device__ void copy(const weight_shape& shape, const weight_matrix& matrix, unsigned to_strip,
                       std::size_t strip, std::size_t chunk, unsigned part) {
    const bool wanted = strip < shape.strips();
    const auto* from = static_cast<const bits128*>(matrix.weights);
    copy_async<16>(&strips[to_strip][part],
                   wanted ? from + (strip * shape.chunks() + chunk) * parts_of_strip + part : from, wanted);
  }

  __device__ lane_weights<weight_format::int8> of_lane(unsigned strip, unsigned lane) const {
    return {{strips[strip][lane], strips[strip][32 + lane]}};
  }
};

template <>
struct strip_chunks<weight_format::int4> {
  static constexpr unsigned scale_parts = 2; // of 16 bytes
  static constexpr unsigned parts_of_strip = 32;

  bits128 strips[block_strips][parts_of_strip];
  alignas(16) std::uint32_t scales[block_strips][8];

  __device__ void copy(const weight_shape& shape, const weight_matrix& matrix, unsigned to_strip,
                       std::size_t strip, std::size_t chunk, unsigned part) {
    const bool wanted = strip < shape.strips();
    const std::size_t block = wanted ? strip * shape.chunks() + chunk : 0;
    copy_async<16>(&strips[to_strip][part],
                   static_cast<const bits128*>(matrix.weights) + block * parts_of_strip + part, wanted);
    if (part < scale_parts)
      copy_async<16>(&scales[to_strip][4 * part], matrix.group_scales + block * 8 + 4 * part, wanted);
  }

  __device__ lane_weights<weight_format::int4> of_lane(unsigned strip, unsigned lane) const {
    return {strips[strip][lane], scales[strip][lane / 4]};
  }
};

template <weight_format Format>
struct tile_stage {
  bf16_rows rows;
  strip_chunks<Format> weights;
};

// Chunks share by share: 0, 8, 16, ..., 1, 9, 17, ...
struct chunk_order {
  std::size_t chunks;
  std::size_t chunk = 0;

  __device__ bool ends_share() const { return chunk + input_shares >= chunks; }

  __device__ void next() { chunk = ends_share() ? chunk % input_shares + 1 : chunk + input_shares; }
};

// x: item, y: block of channels, so that concurrent blocks share weights.
template <weight_format Format, unsigned Matrices>
__global__ void __launch_bounds__(tile_threads, 1) tiled_rows_kernel(few_rows_args args) {
  constexpr unsigned matrix_strips = block_strips / Matrices; // of each matrix
  auto* ring = dynamic_shared<tile_stage<Format>>();
  const row_item item = args.items[blockIdx.x];
  if (item.rows == 0)
    return;
  TROUPE_DEVICE_CHECK(item.rows <= most_tiled_rows);
  TROUPE_DEVICE_CHECK((item.matrix + 1) * Matrices <= args.num_matrices);
  TROUPE_DEVICE_CHECK(row_of(args, item, item.rows - 1) < args.num_output_rows);
  const std::size_t first_strip = std::size_t{blockIdx.y} * matrix_strips;
  weight_matrix matrix[Matrices];
  for (unsigned m = 0; m < Matrices; ++m)
    matrix[m] = args.matrices[item.matrix * Matrices + m];

  // The thread's piece of every 32nd row.
  constexpr unsigned rows_of_round = tile_threads / chunk_pieces;
  constexpr unsigned rounds = most_tiled_rows / rows_of_round;
  const unsigned piece = threadIdx.x % chunk_pieces;
  const bfloat16* rows[rounds];
  TROUPE_UNROLL
  for (unsigned i = 0; i < rounds; ++i) {
    const unsigned r = i * rows_of_round + threadIdx.x / chunk_pieces;
    rows[i] = nullptr;
    if (r < item.rows) {
      const std::size_t row = row_of(args, item, r);
      const std::size_t from = args.input_rows != nullptr ? args.input_rows[row] : row;
      TROUPE_DEVICE_CHECK(from < args.num_input_rows);
      rows[i] = args.input + from * args.input_stride + piece * lane_run;
    }
  }
  const auto fetch = [&](std::size_t chunk, unsigned to) {
    tile_stage<Format>& stage = ring[to];
    const std::size_t input = chunk * chunk_inputs;
    const bool has_input = input + piece * lane_run < args.shape.inputs;
    TROUPE_UNROLL
    for (unsigned i = 0; i < rounds; ++i) {
      const bool wanted = has_input && rows[i] != nullptr;
      copy_async<16>(&stage.rows.at(i * rows_of_round + threadIdx.x / chunk_pieces, piece),
                     wanted ? rows[i] + input : args.input, wanted);
    }
    constexpr unsigned parts = strip_chunks<Format>::parts_of_strip;
    TROUPE_UNROLL
    for (unsigned at = 0; at < block_strips * parts; at += tile_threads) {
      const unsigned strip = (at + threadIdx.x) / parts;
      weight_matrix of = matrix[0]; // without an index, which would need local memory
      if constexpr (Matrices == 2)
        if (strip % 2 == 1)
          of = matrix[1];
      stage.weights.copy(args.shape, of, strip, first_strip + strip / Matrices, chunk,
                         (at + threadIdx.x) % parts);
    }
  };

  const std::size_t chunks = args.shape.chunks();
  chunk_order ahead{chunks};
  std::size_t fetched = 0;
  const auto fetch_next = [&] {
    if (fetched < chunks) {
      fetch(ahead.chunk, static_cast<unsigned>(fetched % stages));
      ahead.next();
      ++fetched;
    }
    end_copy_group();
  };
  TROUPE_UNROLL
  for (unsigned i = 0; i + 1 < stages; ++i)
    fetch_next();

  const unsigned lane = lane_index();
  const unsigned strip = warp_index() % channel_warps * warp_strips;
  const unsigned first_tile = warp_index() / channel_warps * warp_tiles;
  float sums[warp_strips][warp_tiles][4] = {};
  float share[warp_strips][warp_tiles][4] = {};
  chunk_order now{chunks};
  for (std::size_t done = 0; done < chunks; ++done, now.next()) {
    wait_for_copies<stages - 2>();
    block_barrier(); // this chunk has arrived for all, and the last one, whose place is filled now, is done
    fetch_next();
    const tile_stage<Format>& stage = ring[done % stages];
    lane_weights<Format> weights[warp_strips];
    TROUPE_UNROLL
    for (unsigned i = 0; i < warp_strips; ++i)
      weights[i] = stage.weights.of_lane(strip + i, lane);
    TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      bits128 x[warp_tiles];
      TROUPE_UNROLL
      for (unsigned t = 0; t < warp_tiles; ++t)
        x[t] = stage.rows.at((first_tile + t) * static_cast<unsigned>(tile_rows) + lane_row(lane),
                             lane_input(lane, half) / static_cast<unsigned>(lane_run));
      TROUPE_UNROLL
      for (unsigned s = 0; s < chunk_steps / 2; ++s)
        TROUPE_UNROLL
      for (unsigned i = 0; i < warp_strips; ++i) {
        std::uint32_t a[4];
        weights[i].step(chunk_steps / 2 * half + s, a);
        TROUPE_UNROLL
        for (unsigned t = 0; t < warp_tiles; ++t)
          multiply_add(share[i][t], a, x[t].word[2 * s], x[t].word[2 * s + 1]);
      }
    }
    if (!now.ends_share())
      continue;
    TROUPE_UNROLL
    for (unsigned i = 0; i < warp_strips; ++i)
      TROUPE_UNROLL
    for (unsigned t = 0; t < warp_tiles; ++t)
      TROUPE_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      sums[i][t][j] = now.chunk % input_shares == 0 ? share[i][t][j] : sums[i][t][j] + share[i][t][j];
      share[i][t][j] = 0.0F;
    }
  }

  // Shares without a chunk are zeros, which `few_rows` adds: they turn a sum of −0 into 0.
  const bool has_empty_shares = chunks < input_shares;
  TROUPE_UNROLL
  for (unsigned t = 0; t < warp_tiles; ++t)
    TROUPE_UNROLL
  for (unsigned j = 0; j < 4; ++j) {
    const unsigned r = (first_tile + t) * static_cast<unsigned>(tile_rows) + result_row(lane, j);
    TROUPE_UNROLL
    for (unsigned i = 0; i < warp_strips; i += Matrices) {
      const std::size_t output =
          (first_strip + (strip + i) / Matrices) * strip_channels + result_channel(lane, j);
      if (r >= item.rows || output >= args.shape.outputs)
        continue;
      float of[Matrices];
      TROUPE_UNROLL
      for (unsigned m = 0; m < Matrices; ++m)
        of[m] = has_empty_shares ? sums[i + m][t][j] + 0.0F : sums[i + m][t][j];
      finish_output(args, matrix, row_of(args, item, r), output, of);
    }
  }
}

template <weight_format Format, unsigned Matrices>
void start(const stream& on, const few_rows_args& args) {
  constexpr std::size_t matrix_strips = block_strips / Matrices;
  launch("tiled_rows", on,
         {.blocks_x = args.num_items,
          .blocks_y = (args.shape.strips() + matrix_strips - 1) / matrix_strips,
          .threads = tile_threads,
          .shared_bytes = stages * sizeof(tile_stage<Format>)},
         tiled_rows_kernel<Format, Matrices>, args);
}

} // namespace

void tiled_rows(const stream& on, const few_rows_args& args) {
  check_row_products("tiled_rows", args, most_tiled_rows);
  with_constants_of(args, [&](auto format, auto matrices) { start<format(), matrices()>(on, args); });
}

} // namespace troupe::kernels::cuda
