// The functions of cuda_backend.hpp in a build without CUDA.
#include "kernels/model/cuda/cuda_backend.hpp"
#include "kernels/model/error.hpp"

namespace troupe::model {

std::optional<std::string> cuda_problem(std::uint32_t /*number*/) {
  return "this build computes on the CPU only; choose cpu or auto, or build with -DTROUPE_CUDA=ON";
}

bool cuda_is_emulated() {
  return false;
}

std::unique_ptr<compute_backend> make_cuda_backend(kernels::context& /*ctx*/,
                                                   std::shared_ptr<const tensor_source> /*tensors*/,
                                                   std::uint32_t number, const cuda_options& /*options*/) {
  throw model_error("CUDA device " + std::to_string(number) + ": " + *cuda_problem(number));
}

} // namespace troupe::model
