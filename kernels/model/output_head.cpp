#include "kernels/model/output_head.hpp"

#include "kernels/model/checkpoint.hpp"
#include "kernels/model/packed_source.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::model {

bool has_own_output_head(const std::filesystem::path& folder, const model_config& config) {
  if (!config.tie_word_embeddings || std::filesystem::exists(folder / packed_file_name))
    return false; // packed weights agree with their configuration
  const auto weights = checkpoint::open(folder);
  const auto* head = weights.find(config.lm_head.name);
  const auto* embeddings = weights.find(config.embeddings.name);
  if (head == nullptr || embeddings == nullptr || !std::ranges::equal(head->shape, embeddings->shape))
    return false;
  if (head->type != embeddings->type)
    return true;
  const auto& own = weights.read(config.lm_head.name);
  const auto& tied = weights.read(config.embeddings.name);
  return std::memcmp(own.data, tied.data, own.num_bytes) != 0;
}

} // namespace troupe::model
