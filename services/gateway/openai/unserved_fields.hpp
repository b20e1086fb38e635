// Fields of OpenAI, vLLM, SGLang, llama.cpp and others that would change the answer and are not served.
#pragma once

#include <span>
#include <string_view>

#include "services/gateway/openai/fields.hpp"

namespace troupe::openai {

struct unserved_field {
  const char* name;
  const char* feature;
  /// JSON of the values that ask for nothing, separated by blanks; `null` and an empty array always do.
  std::string_view neutral{};
};

/// Those that are refused in completions and chats alike; docs/api.md is compared with these.
std::span<const unserved_field> unserved_fields();

/// Refuses what would change the answer: ignoring it silently would be a wrong answer. A value that asks for
/// nothing (the field's own default, where it has one) passes.
/// @throws api_error 422 naming the field
void refuse_unserved(const fields& body);

/// Of those, what concerns chats alone.
/// @throws api_error 422 naming the field; 400 for a `tool_choice` of the wrong type
void refuse_unserved_in_chat(const fields& body);

} // namespace troupe::openai
