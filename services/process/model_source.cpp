#include "services/process/model_source.hpp"

#include <algorithm>
#include <filesystem>

#include "kernels/model/numerics.hpp"

namespace troupe {

namespace {

model::dtype_choice dtype_choice_of(const std::string& text) {
  if (text == "float32") {
    return model::dtype_choice::float32;
  }
  return text == "bfloat16" ? model::dtype_choice::bfloat16 : model::dtype_choice::automatic;
}

} // namespace

model_source open_model(const model_options& options) {
  options.check();
  model_source source;
  source.config = model::load_config(options.model_dir);
  source.generation = model::load_generation_config(options.model_dir, source.config);
  auto weights = std::make_shared<model::checkpoint>(model::checkpoint::open(options.model_dir));
  weights->validate(source.config);
  source.type = model::resolve_dtype(dtype_choice_of(options.dtype), *weights);
  source.fingerprint = weights->fingerprint(source.config);
  source.numerics_class = model::numerics_class(source.type);
  source.weights = std::move(weights);
  return source;
}

std::string default_model_name(const std::string& model_dir) {
  std::filesystem::path folder = std::filesystem::absolute(model_dir).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path()).filename().string();
}

model_shape shape_of(const model_source& source) {
  model_shape shape;
  shape.fingerprint = source.fingerprint;
  shape.numerics_class = source.numerics_class;
  shape.vocab_size = static_cast<uint32_t>(source.config.vocab_size);
  shape.max_model_len = static_cast<uint32_t>(source.config.max_context);
  shape.row_bytes = static_cast<uint32_t>(kernels::bytes_of(source.type, source.config.hidden));
  shape.eos_token_ids = source.generation.eos_token_ids;
  for (const auto& layer : source.config.layers) {
    const auto* moe = layer.moe();
    shape.layer_experts.push_back(moe != nullptr ? static_cast<uint32_t>(moe->num_experts) : 0);
    shape.num_topk = std::max(shape.num_topk, moe != nullptr ? static_cast<uint32_t>(moe->num_topk) : 0);
  }
  return shape;
}

} // namespace troupe
