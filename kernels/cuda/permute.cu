#include "kernels/cuda/permute.hpp"

#include "kernels/cuda/memory.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned permute_threads = 128;
constexpr std::size_t piece_bytes = 16;

__global__ void __launch_bounds__(permute_threads) permute_kernel(permute_args args) {
  const std::size_t row = blockIdx.x;
  if (args.num_valid != nullptr && row >= *args.num_valid)
    return;
  const std::size_t from = args.entries[row] / args.divisor;
  TROUPE_DEVICE_CHECK(from < args.num_input_rows);
  const std::byte* in = static_cast<const std::byte*>(args.input) + from * args.input_stride;
  std::byte* out = static_cast<std::byte*>(args.output) + row * args.row_bytes;
  for (std::size_t i = threadIdx.x * piece_bytes; i < args.row_bytes; i += permute_threads * piece_bytes)
    *reinterpret_cast<bits128*>(out + i) = load_again(in + i);
}

} // namespace

void permute(const stream& on, const permute_args& args) {
  expect(args.row_bytes % piece_bytes == 0 && args.input_stride % piece_bytes == 0,
         "cuda permute: rows are not a multiple of 16 bytes");
  launch("permute", on, {.blocks_x = args.rows, .threads = permute_threads}, permute_kernel, args);
}

} // namespace troupe::kernels::cuda
