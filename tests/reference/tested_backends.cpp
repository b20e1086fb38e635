#include "tests/reference/tested_backends.hpp"

#include "kernels/model/cpu_backend.hpp"
#include "kernels/model/cuda/cuda_backend.hpp"
#include "kernels/model/open_weights.hpp"
#include "tests/reference/mixed_backend.hpp"

#include <stdexcept>

namespace troupe::test {

std::vector<std::string> tested_backends() {
  if (model::cuda_is_emulated())
    return {"cuda"};
  std::vector<std::string> names{"cpu"};
  if (!model::cuda_problem(0))
    names.emplace_back("cuda");
  return names;
}

std::vector<std::string> mixed_backends() {
  if (model::cuda_problem(0))
    return {};
  return {"cuda+cpu", "cpu+cuda"};
}

bool is_slow(const std::string& name) {
  return name != "cpu" && model::cuda_is_emulated();
}

bool computes(const std::string& name, kernels::dtype type) {
  return name == "cpu" || type == kernels::dtype::bf16;
}

std::unique_ptr<model::compute_backend> open_backend(const std::string& name, kernels::context& ctx,
                                                     const std::filesystem::path& folder,
                                                     model::dtype_choice dtype,
                                                     const model::quantization& quant) {
  if (const auto plus = name.find('+'); plus != std::string::npos)
    return std::make_unique<mixed_backend>(open_backend(name.substr(0, plus), ctx, folder, dtype, quant),
                                           open_backend(name.substr(plus + 1), ctx, folder, dtype, quant));
  const auto config = model::load_config(folder);
  const model::open_options options{.dtype = dtype, .quant = quant};
  if (name == "cuda")
    return model::make_cuda_backend(ctx, model::open_tensors(folder, config, options), 0);
  if (name == "cpu")
    return std::make_unique<model::cpu_backend>(ctx, model::open_weights(folder, config, options));
  throw std::logic_error("tests do not know how to open a model on " + name);
}

} // namespace troupe::test
