// One added token: a string that the tokenizer finds in the text before its model runs.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::text {

struct added_token {
  std::string content;
  std::string decoded = {}; ///< for decoders: the content after the normalizer
  std::int32_t id = -1;     ///< in the file that lists it; -1: none does
  bool single_word = false;
  bool strip_left = false;
  bool strip_right = false;
  bool normalized = false; ///< searched in the normalized text
  bool special = false;
};

} // namespace troupe::text
