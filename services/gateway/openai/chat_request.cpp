#include <limits>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/conversation.hpp"
#include "services/gateway/openai/generation_options.hpp"

namespace troupe::openai {

namespace {

void refuse_unserved_in_chat(const fields& body) {
  for (const char* name : {"functions", "function_call"})
    if (body.find(name) != nullptr)
      throw unsupported(std::string("'") + name + "' is not supported; use 'tools'", name);
  if (const json* choice = body.find("tool_choice")) {
    const bool named = choice->is_object();
    if (!named && !choice->is_string())
      throw invalid_request(std::string("'tool_choice' must be a string or an object, not ")
                                + kind_of(*choice),
                            "tool_choice", "invalid_type");
    if (named || (*choice != "auto" && *choice != "none"))
      throw unsupported("'tool_choice' is supported as 'auto' and 'none'", "tool_choice");
  }
  if (const json* modalities = body.array("modalities"))
    for (const json& modality : *modalities)
      if (modality != "text")
        throw unsupported("'modalities': only text is supported", "modalities");
  if (body.boolean("echo").value_or(false))
    throw unsupported("'echo' is not supported for chats", "echo");
}

/// `max_completion_tokens` is the newer name, and wins.
std::optional<int32_t> parse_max_tokens(const fields& body) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const auto older = body.integer("max_tokens", 1, most);
  const auto newer = body.integer("max_completion_tokens", 1, most);
  if (!older && !newer)
    return std::nullopt;
  return static_cast<int32_t>(newer ? *newer : *older);
}

} // namespace

chat_completion_request parse_chat_completion_request(std::string_view body, const request_limits& limits) {
  const json parsed = parse_body(body);
  const fields in{parsed};
  chat_completion_request result;
  refuse_unserved_in_chat(in);
  result.options = parse_generation_options(in, limits);
  generation_options& options = result.options;
  // Templates write the special tokens out themselves.
  options.add_special_tokens = in.boolean("add_special_tokens").value_or(false);
  options.max_tokens = parse_max_tokens(in);
  const bool logprobs = in.boolean("logprobs").value_or(false);
  const auto top = in.integer("top_logprobs", 0, max_logprobs);
  if (top && *top > 0 && !logprobs)
    throw invalid_request("'top_logprobs' needs 'logprobs' to be true", "top_logprobs", "invalid_value");
  if (logprobs)
    options.logprobs = static_cast<int32_t>(top.value_or(0));
  result.chat = parse_conversation(in);
  return result;
}

} // namespace troupe::openai
