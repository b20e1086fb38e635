#include "kernels/cuda/pick_logits.hpp"

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned pick_threads = 128;

__global__ void __launch_bounds__(pick_threads) pick_logits_kernel(pick_logits_args args) {
  const std::size_t i = blockIdx.x * std::size_t{pick_threads} + threadIdx.x;
  if (i >= args.count)
    return;
  const logit_place place = args.places[i];
  TROUPE_DEVICE_CHECK(place.row < args.rows && place.token < args.vocab);
  args.output[i] = args.logits[place.row * args.vocab + place.token];
}

} // namespace

void pick_logits(const stream& on, const pick_logits_args& args) {
  launch("pick_logits", on,
         {.blocks_x = (args.count + pick_threads - 1) / pick_threads, .threads = pick_threads},
         pick_logits_kernel, args);
}

} // namespace troupe::kernels::cuda
