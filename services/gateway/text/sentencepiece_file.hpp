// Reads a model file of SentencePiece (`tokenizer.model`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

struct sentencepiece_model {
  enum class kind : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };

  struct piece {
    std::string text;
    float score = 0;
    kind what = kind::normal;
  };

  std::vector<piece> pieces;            ///< by id
  std::uint64_t model_type = 1;         ///< 1: Unigram, 2: BPE
  bool byte_fallback = false;           ///< characters that are no piece become their bytes
  bool whitespace_is_suffix = false;    ///< blanks belong to the word before them
  std::string charsmap;                 ///< a table of replacements in binary form; empty: none
  bool add_dummy_prefix = true;         ///< a blank before the text
  bool remove_extra_whitespaces = true; ///< at the ends, and all but one of several
  bool escape_whitespaces = true;       ///< blanks are written U+2581
};

/// `bytes` is a protobuf message; `file` names it in errors.
/// @throws text_error  the message is cut off or malformed, or has no pieces
sentencepiece_model read_sentencepiece(std::string_view bytes, const std::string& file);

} // namespace troupe::text
