#include "services/gateway/end_tokens.hpp"

#include <algorithm>

namespace troupe {

std::vector<std::int32_t> end_tokens_of(const model::generation_config& generation,
                                        const model::model_config& config, const text::tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = generation.eos_token_ids;
  ids.insert(ids.end(), config.eos_token_ids.begin(), config.eos_token_ids.end());
  if (const auto id = tokenizer.eos_id())
    ids.push_back(*id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

} // namespace troupe
