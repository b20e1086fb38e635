// Cuts a text where it has no blank, or nothing else, for very long.
#pragma once

#include "services/gateway/text/pre_tokenizer.hpp"

#include <cstddef>
#include <memory>

namespace troupe::text {

/// What the tokenizers of Llama 3 and Kimi do before their pattern, because it is slow on such texts: no part
/// has more than `longest_run` blanks in a row, or other characters in a row, and none has over
/// `longest_part` characters. Blanks are those of Python's str.isspace.
std::unique_ptr<const pre_tokenizer> make_long_run_cuts(std::size_t longest_run, std::size_t longest_part);

} // namespace troupe::text
