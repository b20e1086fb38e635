#include "kernels/model/numerics.hpp"

#include "kernels/arithmetic_revision.hpp"

namespace troupe::model {

kernels::dtype resolve_dtype(dtype_choice choice, const checkpoint& weights, const model_config& config) {
  switch (choice) {
  case dtype_choice::float32:
    return kernels::dtype::f32;
  case dtype_choice::bfloat16:
    return kernels::dtype::bf16;
  case dtype_choice::automatic:
    break;
  }
  // A matrix of products decides: some checkpoints keep norms and routers in a wider type.
  const auto& first = *config.layers.front().find<project_op>();
  const auto& sample = weights.at(first.matrix.parts.front().name);
  return sample.type == storage_dtype::bfloat16 ? kernels::dtype::bf16 : kernels::dtype::f32;
}

std::string numerics_class(kernels::dtype type, const quantization& quant,
                           std::optional<kernels::dtype> kv_type, device_kind kind) {
  return std::string{name_of(kind)} + "/" + kernels::name_of(type) + "/" + quant.name()
         + (kv_type.value_or(type) == type ? "" : std::string{"+kv-"} + kernels::name_of(*kv_type)) + "/r"
         + std::to_string(kernels::arithmetic_revision);
}

std::string attention_class(std::string name, const model_config& config, std::size_t positions) {
  if (&config.rope_for(positions) != &config.rope)
    name.insert(name.rfind('/'), "+short-rope");
  return name;
}

std::optional<class_parts> parts_of_class(const std::string& name) {
  // Few enough to try them all: only one place knows how names are made.
  for (const auto type : {kernels::dtype::f32, kernels::dtype::bf16})
    for (int experts = 0; experts <= static_cast<int>(last_expert_quant); ++experts)
      for (int dense = 0; dense <= static_cast<int>(last_dense_quant); ++dense)
        for (const auto rows : {kernels::row_quant::none, kernels::row_quant::int8})
          for (const auto kv_type : {type, kernels::dtype::int8}) {
            const class_parts parts{
                type, {static_cast<expert_quant>(experts), static_cast<dense_quant>(dense), rows}, kv_type};
            if (numerics_class(parts.type, parts.quant, parts.kv_type) == name)
              return parts;
          }
  return std::nullopt;
}

} // namespace troupe::model
