#include "kernels/model/cuda/cuda_backend.hpp"

#include "kernels/model/cuda/cuda_attention.hpp"
#include "kernels/model/cuda/cuda_experts.hpp"

#include <utility>

namespace troupe::model {

namespace {

namespace cuda = kernels::cuda;

class cuda_backend final : public compute_backend {
 public:
  cuda_backend(kernels::context& ctx, std::shared_ptr<const tensor_source> tensors, int device,
               const cuda_options& options)
      : ctx_(ctx),
        tensors_(std::move(tensors)),
        device_(cuda::use_device(device).ordinal),
        options_(options) {}

  std::unique_ptr<attention_backend> load_attention(const load_options& options,
                                                    const load_progress& progress) override {
    cuda::select_device(device_);
    return std::make_unique<cuda_attention>(ctx_, device_, tensors_, options, progress, options_.graphs);
  }

  std::unique_ptr<expert_backend> make_experts() override {
    cuda::select_device(device_);
    return std::make_unique<cuda_experts>(device_, tensors_, ctx_.instruction_set(), options_.expert_memory);
  }

 private:
  kernels::context& ctx_;
  std::shared_ptr<const tensor_source> tensors_;
  int device_;
  cuda_options options_;
};

} // namespace

bool cuda_is_emulated() {
  return !cuda::is_real_device();
}

std::optional<std::string> cuda_problem(std::uint32_t number) {
  try {
    const auto devices = cuda::list_devices();
    if (devices.empty())
      return "this machine has no NVIDIA GPU; choose cpu or auto";
    if (number >= devices.size())
      return "this machine has " + std::to_string(devices.size())
             + (devices.size() == 1 ? " GPU, number 0" : " GPUs, numbered from 0")
             + "; choose one of them, cpu or auto";
    if (const auto reason = cuda::why_unsuitable(devices[number]); !reason.empty())
      return reason + "; choose another device, cpu or auto";
    return {};
  } catch (const cuda::device_error& error) {
    return std::string{error.what()} + "; choose cpu or auto";
  }
}

std::unique_ptr<compute_backend> make_cuda_backend(kernels::context& ctx,
                                                   std::shared_ptr<const tensor_source> tensors,
                                                   std::uint32_t number, const cuda_options& options) {
  if (const auto problem = cuda_model_problem(tensors->config(), tensors->type(), tensors->quant()))
    throw model_error(tensors->folder().string() + ": " + *problem);
  return std::make_unique<cuda_backend>(ctx, std::move(tensors), static_cast<int>(number), options);
}

} // namespace troupe::model
