// Looks at a model without loading it.
#pragma once

#include <cstdint>
#include <string>

#include "services/options/role_options.hpp"
#include "services/pages/model_page.hpp"

namespace troupe {

struct inspect_options {
  model_options model; ///< `model_dir`: a folder, with or without weights, or a config.json by itself
  attention_options attention;
  std::uint32_t expert_workers = 2;
};

/// Everything that configuration, headers of weights and tokenizer say, as far as they can be read. No weight
/// is read. `error` is the first problem in the order in which `troupe serve` would meet it. A model that is
/// refused for its quantized weights alone is described with weights in BF16.
pages::model_page inspect(const inspect_options& options);

} // namespace troupe
