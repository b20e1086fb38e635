#include "services/gateway/openai/answer_size.hpp"

#include <algorithm>
#include <string>

namespace troupe::openai {

namespace {

// Estimates for typical tokens: text of four to six bytes, logprobs with 17 digits.
constexpr std::size_t text_bytes = 6;
constexpr std::size_t id_bytes = 7;
constexpr std::size_t choice_bytes = 256;      ///< of a choice without tokens
constexpr std::size_t legacy_token_bytes = 48; ///< offset, logprob and name
constexpr std::size_t legacy_entry_bytes = 30; ///< "name":logprob
constexpr std::size_t chat_entry_bytes = 80;   ///< an object with name, logprob and bytes
constexpr std::size_t prompt_entry_bytes = 90; ///< "id":{logprob, rank and text}

/// A token's logprob with its alternatives.
std::size_t logprob_bytes(std::size_t num_top, bool chat) {
  return chat ? (num_top + 1) * chat_entry_bytes + 24
              : legacy_token_bytes + (num_top + 1) * legacy_entry_bytes;
}

/// The part of the answer about one prompt.
std::size_t bytes_of_prompt(const planned_prompt& prompt, const generation_options& options, bool chat) {
  const std::size_t num_tokens = prompt.tokens.size();
  std::size_t total = prompt.echo.size();
  if (options.echo && options.logprobs)
    total += num_tokens * logprob_bytes(static_cast<std::size_t>(*options.logprobs), chat);
  if (options.prompt_logprobs)
    total += num_tokens * (static_cast<std::size_t>(*options.prompt_logprobs) + 1) * prompt_entry_bytes;
  if (options.return_token_ids)
    total += num_tokens * id_bytes;
  return total;
}

std::string mebibytes(std::size_t bytes) {
  constexpr std::size_t mebibyte = 1 << 20;
  return bytes % mebibyte == 0 ? std::to_string(bytes / mebibyte) + " MiB" : std::to_string(bytes) + " bytes";
}

std::string too_large_for(std::size_t max_bytes) {
  return " more than the " + mebibytes(max_bytes)
         + " of --max-response-bytes: ask for fewer choices, tokens or logprobs, or set 'stream'";
}

const char* field_at_fault(const generation_plan& plan) {
  if (plan.options.logprobs)
    return plan.chat ? "top_logprobs" : "logprobs";
  return plan.options.prompt_logprobs ? "prompt_logprobs" : "max_tokens";
}

} // namespace

std::size_t bytes_per_token(const generation_options& options, bool chat) {
  std::size_t total = text_bytes;
  if (options.logprobs)
    total += logprob_bytes(static_cast<std::size_t>(*options.logprobs), chat);
  if (options.return_token_ids)
    total += id_bytes;
  return total;
}

void limit_answer(generation_plan& plan, std::size_t max_bytes) {
  if (plan.options.stream)
    return;
  const std::size_t num_choices = plan.options.num_choices;
  const std::size_t per_token = bytes_per_token(plan.options, plan.chat);
  // A chat's prompt is reported once, a completion's in each choice.
  const std::size_t num_prompts_told = plan.chat ? 1 : num_choices;
  std::size_t fixed = 0;
  std::size_t num_tokens = 0;
  for (const planned_prompt& prompt : plan.prompts) {
    fixed += num_choices * choice_bytes + num_prompts_told * bytes_of_prompt(prompt, plan.options, plan.chat);
    num_tokens += num_choices * static_cast<std::size_t>(prompt.max_tokens);
  }
  if (fixed + num_tokens * per_token <= max_bytes)
    return;
  const std::size_t num_sequences = plan.prompts.size() * num_choices;
  const std::size_t room = fixed < max_bytes ? (max_bytes - fixed) / per_token / num_sequences : 0;
  const auto least = static_cast<std::size_t>(std::max(1, plan.options.sampling.min_tokens));
  if (!plan.options.max_tokens && room >= least) {
    for (planned_prompt& prompt : plan.prompts)
      prompt.max_tokens =
          static_cast<std::int32_t>(std::min(static_cast<std::size_t>(prompt.max_tokens), room));
    return;
  }
  throw invalid_request(
      "the answer could have about " + std::to_string((fixed + num_tokens * per_token) >> 20) + " MiB ("
          + std::to_string(num_sequences) + " choices with up to " + std::to_string(num_tokens)
          + " new tokens together)," + too_large_for(max_bytes),
      field_at_fault(plan), "response_too_large");
}

std::size_t bytes_of(const std::vector<generated_token>& tokens) {
  std::size_t total = tokens.size() * sizeof(generated_token);
  for (const generated_token& token : tokens)
    total += token.top.size() * sizeof(token_logprob);
  return total;
}

std::size_t bytes_of(const choice_delta& gained) {
  std::size_t total = gained.text.size() + gained.token_ids.size() * sizeof(std::int32_t)
                      + gained.tokens.size() * sizeof(placed_token);
  for (const placed_token& placed : gained.tokens)
    total += placed.token.top.size() * sizeof(token_logprob);
  return total;
}

api_error answer_too_large(std::size_t max_bytes) {
  return invalid_request("the answer has become" + too_large_for(max_bytes), {}, "response_too_large");
}

} // namespace troupe::openai
