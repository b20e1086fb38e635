// Hostile safetensors files give a clear error or a consistent list of tensors.
#include "kernels/model/safetensors.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span{data, size});
  try {
    std::uint64_t covered = 0;
    for (const auto& tensor : troupe::model::parse_safetensors(file, size, "fuzz.safetensors")) {
      std::uint64_t elements = 1;
      for (const auto dim : tensor.shape)
        elements *= dim;
      if (tensor.begin > tensor.end || tensor.end > size)
        std::abort();
      // The size may be unknown for a type that no weight may have.
      if (tensor.type != troupe::model::storage_dtype::other
          && tensor.end - tensor.begin != elements * troupe::model::element_bytes(tensor.type))
        std::abort();
      covered += tensor.end - tensor.begin;
    }
    if (covered > size)
      std::abort();
  } catch (const troupe::model::model_error& e) {
    if (std::string{e.what()}.find("fuzz.safetensors") == std::string::npos)
      std::abort(); // every message names the file
  }
  return 0;
}
