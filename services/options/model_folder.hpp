// The MODEL_DIR of commands: a folder, or the id of a model that Hugging Face's cache has.
#pragma once

#include <string>

#include "services/options/option_parser.hpp"

namespace troupe {

/// The folder that `given` means: itself, or, for an id such as `org/name`, the newest snapshot in Hugging
/// Face's cache (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub). Nothing is downloaded.
/// @throws option_error that says what to do: for an id that the cache lacks, a GGUF file, a path that is no
///         folder
std::string read_model_folder(const std::string& given, const std::string& source);

/// Declares MODEL_DIR.
void declare_model_folder(option_parser& parser, std::string* target);

} // namespace troupe
