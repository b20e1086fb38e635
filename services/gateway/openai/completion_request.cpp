#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/generation_options.hpp"

namespace troupe::openai {

namespace {

constexpr const char* prompt_forms =
    "'prompt' must be a string, an array of strings, an array of token ids or an "
    "array of arrays of token ids";

prompt_input text_prompt(const json& text) {
  prompt_input result;
  result.text = text.get<std::string>();
  return result;
}

/// @param name  "prompt", or "prompt[2]" of a list
prompt_input token_prompt(const json& ids, const std::string& name, std::int32_t vocab_size) {
  prompt_input result;
  result.tokens = parse_token_ids(ids, name, vocab_size);
  if (result.tokens.empty())
    throw invalid_request("'" + name + "' must not be empty", "prompt", "invalid_value");
  return result;
}

std::vector<prompt_input> parse_prompts(const fields& body, const request_limits& limits) {
  const json* prompt = body.find("prompt");
  if (prompt == nullptr)
    throw invalid_request("'prompt' is required", "prompt", "missing_required_parameter");
  if (prompt->is_string())
    return {text_prompt(*prompt)};
  if (!prompt->is_array())
    throw invalid_request(std::string(prompt_forms) + ", not " + kind_of(*prompt), "prompt", "invalid_type");
  if (prompt->empty())
    throw invalid_request("'prompt' must not be empty", "prompt", "invalid_value");
  if (prompt->front().is_number())
    return {token_prompt(*prompt, "prompt", limits.vocab_size)};
  if (prompt->size() > limits.max_sequences)
    throw invalid_request("'prompt' may hold at most " + std::to_string(limits.max_sequences)
                              + " prompts, got " + std::to_string(prompt->size()),
                          "prompt", "invalid_value");
  std::vector<prompt_input> result;
  for (const json& entry : *prompt) {
    const std::string name = "prompt[" + std::to_string(result.size()) + "]";
    if (!entry.is_string() && !entry.is_array())
      throw invalid_request(std::string(prompt_forms) + "; '" + name + "' is " + kind_of(entry), "prompt",
                            "invalid_type");
    if (entry.type() != prompt->front().type())
      throw invalid_request(std::string("'prompt' must hold prompts of one kind: 'prompt[0]' is ")
                                + kind_of(prompt->front()) + ", '" + name + "' is " + kind_of(entry),
                            "prompt", "invalid_type");
    result.push_back(entry.is_string() ? text_prompt(entry) : token_prompt(entry, name, limits.vocab_size));
  }
  return result;
}

} // namespace

completion_request parse_completion_request(std::string_view body, const request_limits& limits) {
  const json parsed = parse_body(body);
  const fields in{parsed};
  completion_request result;
  if (const auto suffix = in.string("suffix"); suffix && !suffix->empty())
    throw unsupported("'suffix' is not supported", "suffix");
  result.options = parse_generation_options(in, limits);
  generation_options& options = result.options;
  result.prompts = parse_prompts(in, limits);
  if (result.prompts.size() * options.num_choices > limits.max_sequences)
    throw invalid_request("prompts × 'n' may be at most " + std::to_string(limits.max_sequences) + ", got "
                              + std::to_string(result.prompts.size() * options.num_choices),
                          "n", "invalid_value");
  options.add_special_tokens = in.boolean("add_special_tokens").value_or(true);
  options.echo = in.boolean("echo").value_or(false);
  if (const auto wanted = in.integer("logprobs", 0, max_logprobs))
    options.logprobs = static_cast<std::int32_t>(*wanted);
  options.max_tokens = parse_token_count(in, "max_tokens", 0);
  options.unlimited = is_unlimited(in, "max_tokens");
  if (options.max_tokens == 0 && !options.echo)
    throw invalid_request("'max_tokens' must be at least 1 unless 'echo' is true", "max_tokens",
                          "invalid_value");
  return result;
}

} // namespace troupe::openai
