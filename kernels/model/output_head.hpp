// Determines whether a model's logits come from its embeddings, as its configuration says, or from a separate
// head.
#pragma once

#include "kernels/model/config.hpp"

#include <filesystem>

namespace troupe::model {

/// Whether the folder has an `lm_head.weight` that differs from the embeddings although `tie_word_embeddings`
/// is set. transformers 5 and vLLM then use it, since fine-tunes are published so. Reads both tensors if they
/// are equal, otherwise up to the first difference; nothing if there is no such tensor.
/// @throws model_error as checkpoint::open and checkpoint::read
bool has_own_output_head(const std::filesystem::path& folder, const model_config& config);

} // namespace troupe::model
