#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/conversation.hpp"
#include "services/gateway/openai/generation_options.hpp"
#include "services/gateway/openai/unserved_fields.hpp"

namespace troupe::openai {

namespace {

/// `max_completion_tokens` is the newer name, and wins.
std::optional<std::int32_t> parse_max_tokens(const fields& body) {
  const auto older = parse_token_count(body, "max_tokens", 1);
  const auto newer = parse_token_count(body, "max_completion_tokens", 1);
  return newer ? newer : older;
}

} // namespace

chat_completion_request parse_chat_completion_request(std::string_view body, const request_limits& limits) {
  const auto in = fields::parse(body);
  chat_completion_request result;
  refuse_unserved_in_chat(in);
  result.options = parse_generation_options(in, limits);
  generation_options& options = result.options;
  // Templates write the special tokens themselves.
  options.add_special_tokens = in.boolean("add_special_tokens").value_or(false);
  options.max_tokens = parse_max_tokens(in);
  options.unlimited =
      !options.max_tokens && (is_unlimited(in, "max_completion_tokens") || is_unlimited(in, "max_tokens"));
  const bool logprobs = in.boolean("logprobs").value_or(false);
  const auto top = in.integer("top_logprobs", 0, max_logprobs);
  if (top && *top > 0 && !logprobs)
    throw invalid_request("'top_logprobs' needs 'logprobs' to be true", "top_logprobs", "invalid_value");
  if (logprobs)
    options.logprobs = static_cast<std::int32_t>(top.value_or(0));
  result.chat = parse_conversation(in, limits);
  return result;
}

} // namespace troupe::openai
