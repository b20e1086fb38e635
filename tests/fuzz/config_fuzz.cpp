// Hostile config.json and generation_config.json: a clear error or a model whose shapes add up.
#include "kernels/model/checkpoint.hpp"
#include "kernels/model/generation_config.hpp"

#include <cstdlib>

namespace {

template <class Parse>
void parse_or_refuse(Parse parse) {
  try {
    parse();
  } catch (const troupe::model::model_error& e) {
    if (std::string{e.what()}.find("fuzz.json") == std::string::npos)
      std::abort(); // every message names the file
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  parse_or_refuse([&] {
    const auto config = troupe::model::parse_config(text, "fuzz.json");
    for (const auto& layer : config.layers) {
      const auto& attention = layer.attention;
      if (attention.num_kv_heads == 0 || attention.num_heads % attention.num_kv_heads != 0)
        std::abort();
      if (const auto* moe = layer.moe(); moe != nullptr && moe->num_topk > moe->num_experts)
        std::abort();
    }
    if (config.num_layers() == 0 || config.max_context == 0)
      std::abort();
    if (config.num_layers() < 64)
      troupe::model::dense_tensors(config);
  });
  parse_or_refuse([&] { troupe::model::parse_generation_config(text, "fuzz.json", 1000); });
  return 0;
}
