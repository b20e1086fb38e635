// Base64 in files of tokenizers.
#pragma once

#include <string>
#include <string_view>

namespace troupe::text {

/// The bytes of `text`, which may lack its padding.
/// @throws text_error  a character is none of the alphabet's
std::string decode_base64(std::string_view text);

std::string encode_base64(std::string_view bytes);

} // namespace troupe::text
