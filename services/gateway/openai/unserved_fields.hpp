// Refuses fields of OpenAI, vLLM, SGLang, llama.cpp and others that would change the answer and are not
// served.
#pragma once

#include <span>
#include <string_view>

#include "services/gateway/openai/fields.hpp"

namespace troupe::openai {

struct unserved_field {
  const char* name;
  const char* feature;
  /// JSON of the values without effect, separated by blanks; `null`, `false` and empty values always have
  /// none.
  std::string_view neutral{};
  /// A served field with the same meaning: if it has the same value, this field has no further effect.
  const char* served{};
};

/// The fields refused in completions and chats alike; docs/api.md is checked against them.
std::span<const unserved_field> unserved_fields();

/// Refuses fields that would change the answer; ignoring them would give a wrong answer. Values without
/// effect, such as a field's default, pass.
/// @throws api_error 422 naming the field
void refuse_unserved(const fields& body);

/// Refuses the unserved fields of chats.
/// @throws api_error 422 naming the field; 400 for a `tool_choice` of the wrong type
void refuse_unserved_in_chat(const fields& body);

} // namespace troupe::openai
