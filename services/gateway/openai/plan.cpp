#include "services/gateway/openai/plan.hpp"

#include <algorithm>
#include <utility>

#include "services/gateway/openai/answer_size.hpp"
#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/choice.hpp"
#include "services/gateway/text/text_error.hpp"

namespace troupe::openai {

namespace {

/// OpenAI's default for completions.
constexpr uint32_t default_completion_tokens = 16;

api_error beyond_context(const std::string& text, bool chat, const request_limits& limits) {
  return invalid_request("This model's maximum context length is " + std::to_string(limits.max_model_len)
                             + " tokens. However, " + text,
                         chat ? "messages" : "prompt", "context_length_exceeded");
}

/// Before a prompt is tokenized: one that has too many bytes for the context would only keep others waiting.
/// @throws api_error when it cannot fit, and is not to be cut either
void check_size(const std::string& text, const generation_options& options, bool chat,
                const text_codec& codec, const request_limits& limits) {
  if (options.truncate_prompt)
    return;
  if (const size_t fewest = codec.fewest_tokens(text); fewest >= limits.max_model_len)
    throw beyond_context("your prompt has at least " + std::to_string(fewest)
                             + " tokens, which leaves no room for a new one.",
                         chat, limits);
}

/// How many new tokens this prompt gets.
/// @throws api_error when prompt and new tokens exceed the context
uint32_t resolve_max_tokens(size_t prompt_tokens, const generation_options& options, bool chat,
                            const request_limits& limits) {
  const auto beyond = [&](const std::string& text) { return beyond_context(text, chat, limits); };
  const std::string prompt = std::to_string(prompt_tokens);
  if (prompt_tokens >= limits.max_model_len)
    throw beyond("your prompt has " + prompt + " tokens, which leaves no room for a new one.");
  const auto room = static_cast<uint32_t>(limits.max_model_len - prompt_tokens);
  if (!options.max_tokens) {
    const uint32_t wanted = chat ? room : default_completion_tokens;
    const auto recommended = limits.defaults.max_new_tokens;
    return std::min({room, wanted, recommended ? static_cast<uint32_t>(std::max(1, *recommended)) : wanted});
  }
  // The engine computes at least one token; an echo without new tokens drops it.
  const auto asked = static_cast<uint32_t>(std::max(1, *options.max_tokens));
  if (asked > room)
    throw beyond("you requested " + std::to_string(prompt_tokens + asked) + " tokens (" + prompt
                 + " in the prompt, " + std::to_string(asked) + " in the completion).");
  return asked;
}

/// Cuts a prompt as vLLM does: by default the last tokens stay.
/// @returns whether it was too long
bool truncate(std::vector<int32_t>& tokens, const generation_options& options, const request_limits& limits) {
  if (!options.truncate_prompt)
    return false;
  auto most = static_cast<size_t>(std::max(1, *options.truncate_prompt));
  if (*options.truncate_prompt < 0) {
    // All that fits beside the new tokens, of which there is at least one. One token stays even where the new
    // ones alone are too many: that is what the client is to be told, not that its prompt is empty.
    const auto reserved = static_cast<uint32_t>(std::max(1, options.max_tokens.value_or(1)));
    most = limits.max_model_len - std::min(reserved, limits.max_model_len - 1);
  }
  if (tokens.size() <= most)
    return false;
  const auto surplus = static_cast<std::ptrdiff_t>(tokens.size() - most);
  if (options.truncate_left)
    tokens.erase(tokens.begin(), tokens.begin() + surplus);
  else
    tokens.resize(most);
  return true;
}

/// The token sequences of words that are not to be said, within a text and at its beginning: as vLLM takes
/// them, with a blank in front where that gives another first token and as many tokens.
std::vector<std::vector<int32_t>> bad_word_tokens(const std::vector<std::string>& words,
                                                  const text_codec& codec) {
  std::vector<std::vector<int32_t>> result;
  const auto add = [&](std::vector<int32_t> tokens) {
    if (tokens.size() > max_bad_word_tokens)
      throw invalid_request("an entry of 'bad_words' may have at most " + std::to_string(max_bad_word_tokens)
                                + " tokens, got " + std::to_string(tokens.size()),
                            "bad_words", "invalid_value");
    result.push_back(std::move(tokens));
  };
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n\r\f\v"), word.size()));
    std::vector<int32_t> plain = encode_text(bare, false, codec, "bad_words");
    if (plain.empty())
      throw invalid_request("an entry of 'bad_words' has no tokens", "bad_words", "invalid_value");
    std::vector<int32_t> spaced = encode_text(" " + bare, false, codec, "bad_words");
    const bool is_another = spaced.size() == plain.size() && spaced.front() != plain.front();
    add(std::move(plain));
    if (is_another)
      add(std::move(spaced));
  }
  return result;
}

/// A request that leaves nothing to choose would be answered with what it forbids.
void check_choices(const sampling_params& sampling) {
  const auto is_bad = [&](int32_t token) {
    return std::any_of(sampling.bad_words.begin(), sampling.bad_words.end(),
                       [token](const auto& word) { return word.size() == 1 && word.front() == token; });
  };
  if (const auto& allowed = sampling.allowed_token_ids;
      !allowed.empty() && std::all_of(allowed.begin(), allowed.end(), is_bad))
    throw invalid_request("'bad_words' excludes every one of 'allowed_token_ids'", "bad_words",
                          "invalid_value");
}

/// The prompt up to the end of the message that is to be continued.
std::string cut_at_mark(std::string prompt) {
  // A template that trims contents has taken the mark's own blank, and then blanks in front count for
  // nothing.
  const std::string_view bare = continuation_mark.substr(0, continuation_mark.size() - 1);
  const size_t at = prompt.rfind(bare);
  if (at == std::string::npos)
    throw invalid_request("'continue_final_message': the chat template does not write the last message",
                          "continue_final_message", "invalid_value");
  const bool keeps_blanks = prompt.compare(at, continuation_mark.size(), continuation_mark) == 0;
  prompt.resize(at);
  if (!keeps_blanks)
    prompt.resize(prompt.find_last_not_of(" \t\n\r\f\v") + 1);
  return prompt;
}

/// What there is once for all prompts.
/// @param drawn_seed  used when the client sent none
generation_plan begin_plan(generation_options options, bool chat, const text_codec& codec,
                           int64_t drawn_seed) {
  generation_plan plan;
  plan.chat = chat;
  plan.options = std::move(options);
  plan.seed = plan.options.seed.value_or(drawn_seed);
  const int32_t logprobs = plan.options.logprobs.value_or(-1);
  sampling_params& sampling = plan.options.sampling;
  sampling.bad_words = bad_word_tokens(plan.options.bad_words, codec);
  sampling.seed = static_cast<uint64_t>(plan.seed);
  sampling.num_logprobs = logprobs;
  sampling.prompt_logprobs =
      std::max(plan.options.prompt_logprobs.value_or(-1), plan.options.echo ? logprobs : -1);
  check_choices(sampling);
  return plan;
}

planned_prompt plan_prompt(std::vector<int32_t> tokens, const generation_options& options, bool chat,
                           const request_limits& limits) {
  if (tokens.empty())
    throw invalid_request("the prompt is empty: it has no tokens", chat ? "messages" : "prompt",
                          "invalid_value");
  planned_prompt result;
  result.max_tokens = static_cast<int32_t>(resolve_max_tokens(tokens.size(), options, chat, limits));
  if (const int32_t least = options.sampling.min_tokens; least > result.max_tokens)
    throw invalid_request("'min_tokens' must not exceed the " + std::to_string(result.max_tokens)
                              + " new tokens of this request, got " + std::to_string(least),
                          "min_tokens", "invalid_value");
  result.tokens = std::move(tokens);
  return result;
}

/// Where each token of an echoed prompt begins in its text, in characters. What the tokenizer has put before
/// and behind a text (a beginning-of-text token, say) has no place in it.
/// @param text  as sent; nullptr: `echo` was decoded from the tokens
std::vector<size_t> place_in_echo(const planned_prompt& prompt, const std::string* text, bool special_added,
                                  const text_codec& codec) {
  const auto& tokens = prompt.tokens;
  auto begin = tokens.begin();
  auto end = tokens.end();
  if (text != nullptr && special_added) {
    const auto own = encode_text(*text, false, codec, "prompt");
    if (const auto found = std::search(begin, end, own.begin(), own.end()); found != end) {
      begin = found;
      end = found + static_cast<std::ptrdiff_t>(own.size());
    }
  }
  // A normalizer may have made the tokens' text longer than what was sent.
  const size_t most = count_characters(prompt.echo);
  const auto stream = codec.stream(/*skip_special_tokens=*/false, {});
  std::vector<size_t> result;
  result.reserve(tokens.size());
  size_t offset = 0;
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    result.push_back(std::min(offset, most));
    if (token >= begin && token < end)
      offset += count_characters(stream->push(*token));
  }
  return result;
}

} // namespace

std::vector<int32_t> encode_text(const std::string& text, bool add_special_tokens, const text_codec& codec,
                                 const char* param) {
  try {
    return codec.encode(text, add_special_tokens);
  } catch (const text::text_error& e) {
    throw invalid_request(std::string("the text cannot be tokenized: ") + e.what(), param, "invalid_value");
  }
}

std::string render_conversation(const conversation& chat, const text_codec& codec) {
  if (!codec.has_chat_template() && chat.chat_template.empty())
    throw unsupported("this model has no chat template: use /v1/completions", "messages");
  std::string prompt;
  try {
    prompt =
        codec.render({chat.messages, chat.add_generation_prompt, chat.tools, chat.extra, chat.chat_template});
  } catch (const text::template_error& e) {
    throw invalid_request(std::string("the chat template cannot render this conversation: ") + e.what(),
                          "messages", "invalid_value");
  }
  if (chat.continue_final_message)
    prompt = cut_at_mark(std::move(prompt));
  return prompt;
}

std::vector<int32_t> encode_conversation(const conversation& chat, bool add_special_tokens,
                                         const text_codec& codec) {
  return encode_text(render_conversation(chat, codec), add_special_tokens, codec, "messages");
}

sampling_params sampling_of(const generation_plan& plan, const planned_prompt& prompt) {
  sampling_params result = plan.options.sampling;
  result.max_tokens = prompt.max_tokens;
  return result;
}

generation_plan make_plan(completion_request request, const text_codec& codec, const request_limits& limits,
                          int64_t drawn_seed) {
  generation_plan plan = begin_plan(std::move(request.options), false, codec, drawn_seed);
  for (prompt_input& input : request.prompts) {
    if (input.text)
      check_size(*input.text, plan.options, false, codec, limits);
    std::vector<int32_t> tokens =
        input.text ? encode_text(*input.text, plan.options.add_special_tokens, codec, "prompt")
                   : std::move(input.tokens);
    const bool is_cut = truncate(tokens, plan.options, limits);
    planned_prompt& planned =
        plan.prompts.emplace_back(plan_prompt(std::move(tokens), plan.options, false, limits));
    if (!plan.options.echo)
      continue;
    // As vLLM: a text as it was sent, token ids, and what is left of a text that was cut, with special
    // tokens.
    const std::string* text = input.text && !is_cut ? &*input.text : nullptr;
    planned.echo = text != nullptr ? *text : codec.decode(planned.tokens, /*skip_special_tokens=*/false);
    if (plan.options.logprobs)
      planned.echo_offsets = place_in_echo(planned, text, plan.options.add_special_tokens, codec);
  }
  limit_answer(plan, limits.max_response_bytes);
  return plan;
}

generation_plan make_plan(chat_completion_request request, const text_codec& codec,
                          const request_limits& limits, int64_t drawn_seed) {
  generation_plan plan = begin_plan(std::move(request.options), true, codec, drawn_seed);
  const std::string prompt = render_conversation(request.chat, codec);
  check_size(prompt, plan.options, true, codec, limits);
  std::vector<int32_t> tokens = encode_text(prompt, plan.options.add_special_tokens, codec, "messages");
  truncate(tokens, plan.options, limits);
  plan.prompts.push_back(plan_prompt(std::move(tokens), plan.options, true, limits));
  limit_answer(plan, limits.max_response_bytes);
  return plan;
}

} // namespace troupe::openai
