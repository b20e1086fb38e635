// Fields of OpenAI, vLLM, SGLang, llama.cpp and others that would change the answer and are not served.
#pragma once

#include "services/gateway/openai/fields.hpp"

namespace troupe::openai {

/// Refuses what would change the answer: ignoring it silently would be a wrong answer. A value that asks for
/// nothing (the field's own default, where it has one) passes.
/// @throws api_error 422 naming the field
void refuse_unserved(const fields& body);

/// Of those, what concerns chats alone.
/// @throws api_error 422 naming the field; 400 for a `tool_choice` of the wrong type
void refuse_unserved_in_chat(const fields& body);

} // namespace troupe::openai
