// Which models have GPU kernels; needs no GPU.
#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/router.hpp"
#include "kernels/kv_limits.hpp"
#include "kernels/model/cuda/cuda_backend.hpp"

#include <limits>

namespace troupe::model {

namespace {

// The part of a BF16 row that one load of one thread reads.
constexpr std::size_t row_granule = kernels::cuda::lane_run;

constexpr const char* remedy = "; choose --device cpu";

std::optional<std::string> problem_of_width(const std::string& what, std::size_t width,
                                            std::size_t most = std::numeric_limits<std::size_t>::max()) {
  if (width > most)
    return what + " of " + std::to_string(width) + " is above " + std::to_string(most) + remedy;
  if (width % row_granule == 0)
    return {};
  return what + " of " + std::to_string(width) + " is not a multiple of " + std::to_string(row_granule)
         + ", as its kernels want it" + remedy;
}

std::optional<std::string> problem_of(const project_op& op) {
  return problem_of_width("a product's input", op.matrix.inputs());
}

std::optional<std::string> problem_of(const attend_op& op) {
  return problem_of_width("a head_dim", op.head_dim, kernels::most_head_dim);
}

std::optional<std::string> problem_of(const attend_latent_op& op) {
  if (auto problem = problem_of_width("a qk_head_dim", op.head_dim(), kernels::most_latent_dims))
    return problem;
  if (auto problem = problem_of_width("a qk_nope_head_dim", op.nope_dim))
    return problem;
  return problem_of_width("a v_head_dim", op.value_dim);
}

std::optional<std::string> problem_of(const route_op& op) {
  const auto& moe = op.experts;
  if (moe.num_experts > kernels::cuda::most_experts || moe.num_topk > kernels::cuda::most_top_k)
    return "its router chooses among at most " + std::to_string(kernels::cuda::most_experts)
           + " experts at most " + std::to_string(kernels::cuda::most_top_k) + ", this model "
           + std::to_string(moe.num_topk) + " of " + std::to_string(moe.num_experts) + remedy;
  return problem_of_width("an expert's intermediate size", moe.intermediate);
}

std::optional<std::string> problem_of(const feed_forward_op& op) {
  return problem_of_width("an intermediate size", op.mlp.intermediate());
}

template <class Op>
std::optional<std::string> problem_of(const Op& /*unused*/) {
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
    for (const auto& op : config.layers[i].operations)
      if (const auto problem = std::visit([](const auto& described) { return problem_of(described); }, op))
        return "layer " + std::to_string(i) + ": " + *problem;
  return {};
}

} // namespace troupe::model
