// Which models there are GPU kernels for: needs no GPU.
#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/router.hpp"
#include "kernels/model/cuda/cuda_backend.hpp"

namespace troupe::model {

namespace {

// What one load of one thread fetches of a row in BF16.
constexpr std::size_t row_granule = kernels::cuda::lane_run;
constexpr std::size_t most_head_dim = 256;

constexpr const char* remedy = "; choose --device cpu";

std::optional<std::string> problem_of_width(const std::string& what, std::size_t width) {
  if (width % row_granule == 0)
    return {};
  return what + " of " + std::to_string(width) + " is not a multiple of " + std::to_string(row_granule)
         + ", as its kernels want it" + remedy;
}

std::optional<std::string> problem_of_layer(const layer_spec& layer, const std::string& name) {
  const auto& attention = layer.attention;
  if (attention.head_dim > most_head_dim)
    return name + "a head_dim of " + std::to_string(attention.head_dim) + " is above "
           + std::to_string(most_head_dim) + remedy;
  if (auto problem = problem_of_width(name + "a head_dim", attention.head_dim))
    return problem;
  if (const auto* mlp = std::get_if<dense_mlp_spec>(&layer.mlp))
    return problem_of_width(name + "an intermediate size", mlp->intermediate);
  const auto& moe = *layer.moe();
  if (moe.num_experts > kernels::cuda::most_experts || moe.num_topk > kernels::cuda::most_top_k)
    return name + "its router chooses among at most " + std::to_string(kernels::cuda::most_experts)
           + " experts at most " + std::to_string(kernels::cuda::most_top_k) + ", this model "
           + std::to_string(moe.num_topk) + " of " + std::to_string(moe.num_experts) + remedy;
  if (auto problem = problem_of_width(name + "an expert's intermediate size", moe.intermediate))
    return problem;
  if (moe.shared)
    return problem_of_width(name + "a shared expert's intermediate size", moe.shared->intermediate);
  return {};
}

} // namespace

std::optional<std::string> cuda_model_problem(const model_config& config, kernels::dtype type,
                                              const quantization& quant) {
  if (type != kernels::dtype::bf16)
    return "a GPU computes in bfloat16, and this model is to be computed in float32; choose --dtype "
           "bfloat16 or --device cpu";
  if (quant.any() && quant.rows != kernels::row_quant::none)
    return "a GPU's kernels take rows in bfloat16; choose --activation-quant none or --device cpu";
  if (auto problem = problem_of_width("a hidden size", config.hidden))
    return problem;
  for (std::size_t i = 0; i < config.num_layers(); ++i)
    if (auto problem = problem_of_layer(config.layers[i], "layer " + std::to_string(i) + ": "))
      return problem;
  return {};
}

} // namespace troupe::model
