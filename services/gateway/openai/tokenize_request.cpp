#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/conversation.hpp"
#include "services/gateway/openai/generation_options.hpp"

namespace troupe::openai {

tokenize_request parse_tokenize_request(std::string_view body, const request_limits& limits) {
  const auto in = fields::parse(body);
  tokenize_request result;
  result.model = in.string("model").value_or("");
  result.prompt = in.string("prompt");
  result.return_token_strings = in.boolean("return_token_strs").value_or(false);
  if (!result.prompt) {
    if (in.find("messages") == nullptr)
      throw invalid_request("'prompt' or 'messages' is required", "prompt", "missing_required_parameter");
    result.chat = parse_conversation(in, limits);
  }
  result.add_special_tokens = in.boolean("add_special_tokens").value_or(result.prompt.has_value());
  return result;
}

detokenize_request parse_detokenize_request(std::string_view body, const request_limits& limits) {
  const auto in = fields::parse(body);
  detokenize_request result;
  result.model = in.string("model").value_or("");
  const json* tokens = in.array("tokens");
  if (tokens == nullptr)
    throw invalid_request("'tokens' is required", "tokens", "missing_required_parameter");
  result.tokens = parse_token_ids(*tokens, "tokens", limits.vocab_size);
  return result;
}

} // namespace troupe::openai
