#include "kernels/model/weight_source.hpp"

#include "kernels/model/weights.hpp"

#include <string>
#include <utility>

namespace troupe::model {

weight_source::weight_source(model_config config, kernels::dtype type, const quantization& quant)
    : config_(std::move(config)), type_(type), quant_(quant) {}

tensor_source::tensor_source(std::shared_ptr<const checkpoint> tensors, model_config config,
                             kernels::dtype type, const quantization& quant, std::string fingerprint)
    : weight_source(std::move(config), type, quant),
      tensors_(std::move(tensors)),
      fingerprint_(std::move(fingerprint)) {
  if (type != kernels::dtype::f32 && type != kernels::dtype::bf16)
    throw model_error(std::string{"a model computes in f32 or bf16, not "} + kernels::name_of(type));
}

std::string tensor_source::description() const {
  return std::to_string(tensors_->num_tensors()) + " tensors";
}

const tensor_ref& tensor_source::read(const std::string& name) const {
  const auto& tensor = tensors_->read(name);
  const bool is_matrix = tensor.shape.size() > 1;
  const auto as = is_matrix ? type() : kernels::dtype::f32; // vectors are not converted
  if (const auto at = first_not_finite(tensor, as)) {
    const auto columns = tensor.shape.empty() ? std::size_t{1} : tensor.shape.back();
    const bool fits_f32 = first_not_finite(tensor, kernels::dtype::f32) != at;
    throw model_error(
        tensors_->file_of(tensor).string() + ": tensor '" + name + "', row " + std::to_string(*at / columns)
        + ", column " + std::to_string(*at % columns) + " is not a finite number in " + kernels::name_of(as)
        + (fits_f32 ? ": it is too large for that type, --dtype float32 can hold it"
                    : ": the file is damaged (fetch it again), or the model's training has failed"));
  }
  return tensor;
}

std::vector<float> tensor_source::floats(const std::string& name) const {
  const auto& tensor = read(name);
  auto result = to_floats(tensor);
  release_pages({tensor.data, tensor.num_bytes});
  return result;
}

} // namespace troupe::model
