// Tokenizers of model folders whose vocabulary is a file of tiktoken's format, read by a class in Python of
// the folder's own. What the class does is known here; its code is not run.
#pragma once

#include "services/gateway/text/pipeline.hpp"
#include "services/gateway/text/tokenizer_config.hpp"

#include <filesystem>
#include <memory>

namespace troupe::text {

/// The tokenizer of `model_dir`; null if the folder has no such file.
/// @throws text_error naming what is missing, malformed or unsupported
std::unique_ptr<const pipeline> load_tiktoken_folder(const std::filesystem::path& model_dir,
                                                     const tokenizer_config& config);

} // namespace troupe::text
