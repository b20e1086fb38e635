// Reads the fields of a request that become a chat template's variables.
#pragma once

#include "services/gateway/openai/fields.hpp"
#include "services/gateway/openai/request.hpp"

namespace troupe::openai {

/// Reads `messages`, `tools`, `add_generation_prompt`, `continue_final_message`, `chat_template` and the
/// fields that become variables of the template: `chat_template_kwargs`, `documents`, `reasoning_effort`,
/// `enable_thinking` and `thinking`. Contents stay strings or lists of text parts. Arguments of tool calls
/// become objects, as templates expect.
/// @throws api_error 400 naming what is malformed, 422 for parts that are not text
conversation parse_conversation(const fields& body, const request_limits& limits);

} // namespace troupe::openai
