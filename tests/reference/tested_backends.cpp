#include "tests/reference/tested_backends.hpp"

#include "kernels/model/cpu_backend.hpp"
#include "kernels/model/open_weights.hpp"

#include <stdexcept>

namespace troupe::test {

std::vector<std::string> tested_backends() {
  std::vector<std::string> names{"cpu"};
  if (!model::cuda_problem(0))
    names.emplace_back("cuda");
  return names;
}

std::unique_ptr<model::compute_backend> open_backend(const std::string& name, kernels::context& ctx,
                                                     const std::filesystem::path& folder,
                                                     model::dtype_choice dtype,
                                                     const model::quantization& quant) {
  const auto config = model::load_config(folder);
  const model::open_options options{.dtype = dtype, .quant = quant};
  if (name == "cpu")
    return std::make_unique<model::cpu_backend>(ctx, model::open_weights(folder, config, options));
  throw std::logic_error("tests do not know how to open a model on " + name);
}

} // namespace troupe::test
