#include "kernels/model/peer_weights.hpp"

#include "kernels/model/error.hpp"
#include "kernels/model/packed_format.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace troupe::model {

bool has_weights(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder / packed_file_name, error))
    return true;
  const std::filesystem::directory_iterator files{folder, error};
  return !error && std::any_of(begin(files), end(files), [](const auto& file) {
    return file.path().extension() == ".safetensors";
  });
}

peer_weights::peer_weights(model_config config, kernels::dtype type, const quantization& quant,
                           std::string fingerprint, std::filesystem::path folder)
    : cpu_weights(std::move(config), type, quant),
      fingerprint_(std::move(fingerprint)),
      folder_(std::move(folder)) {}

void peer_weights::fail(const std::string& what) const {
  throw model_error(what + ": " + folder_.string() + " has no weights");
}

std::vector<float> peer_weights::floats(const tensor_requirement& tensor) const {
  fail(tensor.name);
}

kernels::packed_matrix peer_weights::matrix(const matrix_ref& ref) const {
  fail(ref.parts.front().name);
}

kernels::expert_weights peer_weights::mlp(const mlp_ref& ref) const {
  fail(ref.name);
}

embedding_rows peer_weights::embeddings() const {
  fail("embeddings");
}

kernels::expert_weights peer_weights::expert(std::size_t layer, std::size_t expert) const {
  fail("layer " + std::to_string(layer) + ", expert " + std::to_string(expert));
}

} // namespace troupe::model
