// Tokenizers of model folders whose vocabulary is a model of SentencePiece, as transformers' slow tokenizers
// use it.
#pragma once

#include "services/gateway/text/pipeline.hpp"
#include "services/gateway/text/tokenizer_config.hpp"

#include <filesystem>
#include <memory>

namespace troupe::text {

/// The tokenizer of `model_dir`; null if the folder has no tokenizer.model.
/// @throws text_error naming what is missing, malformed or unsupported
std::unique_ptr<const pipeline> load_sentencepiece_folder(const std::filesystem::path& model_dir,
                                                          const tokenizer_config& config);

} // namespace troupe::text
