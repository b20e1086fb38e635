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
constexpr std::uint32_t default_completion_tokens = 16;

api_error beyond_context(const std::string& text, bool chat, const request_limits& limits) {
  return invalid_request("This model's maximum context length is " + std::to_string(limits.max_model_len)
                             + " tokens. However, " + text,
                         chat ? "messages" : "prompt", "context_length_exceeded");
}

/// Refuses, before tokenizing, a prompt with more bytes than can fit the context: it would delay others for
/// nothing.
/// @throws api_error  it cannot fit, and is not to be truncated either
void check_size(const std::string& text, const generation_options& options, bool chat,
                const text_codec& codec, const request_limits& limits) {
  if (options.truncate_prompt)
    return;
  if (const std::size_t fewest = codec.fewest_tokens(text); fewest >= limits.max_model_len)
    throw beyond_context("your prompt has at least " + std::to_string(fewest)
                             + " tokens, which leaves no room for a new one.",
                         chat, limits);
}

/// The number of new tokens for this prompt.
/// @throws api_error  prompt and new tokens exceed the context
std::uint32_t resolve_max_tokens(std::size_t prompt_tokens, const generation_options& options, bool chat,
                                 const request_limits& limits) {
  const auto beyond = [&](const std::string& text) { return beyond_context(text, chat, limits); };
  const std::string prompt = std::to_string(prompt_tokens);
  if (prompt_tokens >= limits.max_model_len)
    throw beyond("your prompt has " + prompt + " tokens, which leaves no room for a new one.");
  const auto room = static_cast<std::uint32_t>(limits.max_model_len - prompt_tokens);
  if (!options.max_tokens) {
    const std::uint32_t wanted = chat ? room : default_completion_tokens;
    if (options.unlimited)
      return room;
    const auto recommended = limits.defaults.max_new_tokens;
    return std::min(
        {room, wanted, recommended ? static_cast<std::uint32_t>(std::max(1, *recommended)) : wanted});
  }
  // The engine computes at least one token; an echo without new tokens drops it.
  const auto asked = static_cast<std::uint32_t>(std::max(1, *options.max_tokens));
  if (asked > room)
    throw beyond("you requested " + std::to_string(prompt_tokens + asked) + " tokens (" + prompt
                 + " in the prompt, " + std::to_string(asked) + " in the completion).");
  return asked;
}

/// Truncates a prompt as vLLM does: by default the last tokens stay.
/// @returns whether it was too long
bool truncate(std::vector<std::int32_t>& tokens, const generation_options& options,
              const request_limits& limits) {
  if (!options.truncate_prompt)
    return false;
  auto most = static_cast<std::size_t>(std::max(1, *options.truncate_prompt));
  if (*options.truncate_prompt < 0) {
    // Keeps what fits beside the new tokens, at least one of each. If the new tokens alone are too many, the
    // client is told that instead of an empty prompt.
    const auto reserved = static_cast<std::uint32_t>(std::max(1, options.max_tokens.value_or(1)));
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

/// The token sequences of forbidden words, inside a text and at its beginning. As with vLLM, a word also gets
/// a form with a leading blank, if that has another first token and as many tokens.
std::vector<std::vector<std::int32_t>> bad_word_tokens(const std::vector<std::string>& words,
                                                       const text_codec& codec) {
  std::vector<std::vector<std::int32_t>> result;
  const auto add = [&](std::vector<std::int32_t> tokens) {
    if (tokens.size() > max_bad_word_tokens)
      throw invalid_request("an entry of 'bad_words' may have at most " + std::to_string(max_bad_word_tokens)
                                + " tokens, got " + std::to_string(tokens.size()),
                            "bad_words", "invalid_value");
    result.push_back(std::move(tokens));
  };
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n\r\f\v"), word.size()));
    std::vector<std::int32_t> plain = encode_text(bare, false, codec, "bad_words");
    if (plain.empty())
      throw invalid_request("an entry of 'bad_words' has no tokens", "bad_words", "invalid_value");
    std::vector<std::int32_t> spaced = encode_text(" " + bare, false, codec, "bad_words");
    const bool is_another = spaced.size() == plain.size() && spaced.front() != plain.front();
    add(std::move(plain));
    if (is_another)
      add(std::move(spaced));
  }
  return result;
}

/// Stop strings that are exactly one special token. The text leaves such a token out, so its id must end the
/// sequence.
std::map<std::int32_t, std::string> special_stops(const generation_options& options,
                                                  const text_codec& codec) {
  std::map<std::int32_t, std::string> result;
  if (!options.skip_special_tokens)
    return result;
  for (const std::string& stop : options.stop) {
    const std::vector<std::int32_t> ids = encode_text(stop, false, codec, "stop");
    if (ids.size() == 1 && codec.decode(ids, /*skip_special_tokens=*/true).empty()
        && codec.decode(ids, /*skip_special_tokens=*/false) == stop)
      result.emplace(ids.front(), stop);
  }
  return result;
}

/// Refuses a request that leaves no token to choose; it would be answered with a forbidden one.
void check_choices(const sampling_params& sampling) {
  const auto is_bad = [&](std::int32_t token) {
    return std::any_of(sampling.bad_words.begin(), sampling.bad_words.end(),
                       [token](const auto& word) { return word.size() == 1 && word.front() == token; });
  };
  if (const auto& allowed = sampling.allowed_token_ids;
      !allowed.empty() && std::all_of(allowed.begin(), allowed.end(), is_bad))
    throw invalid_request("'bad_words' excludes every one of 'allowed_token_ids'", "bad_words",
                          "invalid_value");
}

/// The prompt up to the end of the message to be continued.
std::string cut_at_mark(std::string prompt) {
  // A template that trims contents removes the mark's own blank; then blanks before the mark do not count
  // either.
  const std::string_view bare = continuation_mark.substr(0, continuation_mark.size() - 1);
  const std::size_t at = prompt.rfind(bare);
  if (at == std::string::npos)
    throw invalid_request("'continue_final_message': the chat template does not write the last message",
                          "continue_final_message", "invalid_value");
  const bool keeps_blanks = prompt.compare(at, continuation_mark.size(), continuation_mark) == 0;
  prompt.resize(at);
  if (!keeps_blanks)
    prompt.resize(prompt.find_last_not_of(" \t\n\r\f\v") + 1);
  return prompt;
}

/// The part of a plan that all prompts share.
/// @param drawn_seed  used if the client sent none
generation_plan begin_plan(generation_options options, bool chat, const text_codec& codec,
                           std::int64_t drawn_seed) {
  generation_plan plan;
  plan.chat = chat;
  plan.options = std::move(options);
  plan.seed = plan.options.seed.value_or(drawn_seed);
  const std::int32_t logprobs = plan.options.logprobs.value_or(-1);
  sampling_params& sampling = plan.options.sampling;
  sampling.bad_words = bad_word_tokens(plan.options.bad_words, codec);
  plan.options.special_stops = special_stops(plan.options, codec);
  for (const auto& [token, text] : plan.options.special_stops) {
    auto& stops = sampling.stop_token_ids; // sorted, each once
    if (const auto at = std::lower_bound(stops.begin(), stops.end(), token);
        at == stops.end() || *at != token)
      stops.insert(at, token);
  }
  sampling.seed = static_cast<std::uint64_t>(plan.seed);
  sampling.num_logprobs = logprobs;
  sampling.prompt_logprobs =
      std::max(plan.options.prompt_logprobs.value_or(-1), plan.options.echo ? logprobs : -1);
  check_choices(sampling);
  return plan;
}

planned_prompt plan_prompt(std::vector<std::int32_t> tokens, const generation_options& options, bool chat,
                           const request_limits& limits) {
  if (tokens.empty())
    throw invalid_request("the prompt is empty: it has no tokens", chat ? "messages" : "prompt",
                          "invalid_value");
  planned_prompt result;
  result.max_tokens = static_cast<std::int32_t>(resolve_max_tokens(tokens.size(), options, chat, limits));
  if (const std::int32_t least = options.sampling.min_tokens; least > result.max_tokens)
    throw invalid_request("'min_tokens' must not exceed the " + std::to_string(result.max_tokens)
                              + " new tokens of this request, got " + std::to_string(least),
                          "min_tokens", "invalid_value");
  result.tokens = std::move(tokens);
  return result;
}

/// The start of each token of an echoed prompt in its text, in characters. Tokens that the tokenizer adds
/// around a text (such as a beginning-of-text token) take no space in it.
/// @param text  as sent; nullptr: `echo` was decoded from the tokens
std::vector<std::size_t> place_in_echo(const planned_prompt& prompt, const std::string* text,
                                       bool special_added, const text_codec& codec) {
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
  // A normalizer may have made the tokens' text longer than the sent text.
  const std::size_t most = count_characters(prompt.echo);
  const auto stream = codec.stream(/*skip_special_tokens=*/false, {});
  std::vector<std::size_t> result;
  result.reserve(tokens.size());
  std::size_t offset = 0;
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    result.push_back(std::min(offset, most));
    if (token >= begin && token < end)
      offset += count_characters(stream->push(*token));
  }
  return result;
}

} // namespace

std::vector<std::int32_t> encode_text(const std::string& text, bool add_special_tokens,
                                      const text_codec& codec, const char* param) {
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

std::vector<std::int32_t> encode_conversation(const conversation& chat, bool add_special_tokens,
                                              const text_codec& codec) {
  return encode_text(render_conversation(chat, codec), add_special_tokens, codec, "messages");
}

sampling_params sampling_of(const generation_plan& plan, const planned_prompt& prompt) {
  sampling_params result = plan.options.sampling;
  result.max_tokens = prompt.max_tokens;
  return result;
}

generation_plan make_plan(completion_request request, const text_codec& codec, const request_limits& limits,
                          std::int64_t drawn_seed) {
  generation_plan plan = begin_plan(std::move(request.options), false, codec, drawn_seed);
  for (prompt_input& input : request.prompts) {
    if (input.text)
      check_size(*input.text, plan.options, false, codec, limits);
    std::vector<std::int32_t> tokens =
        input.text ? encode_text(*input.text, plan.options.add_special_tokens, codec, "prompt")
                   : std::move(input.tokens);
    const bool is_cut = truncate(tokens, plan.options, limits);
    planned_prompt& planned =
        plan.prompts.emplace_back(plan_prompt(std::move(tokens), plan.options, false, limits));
    if (!plan.options.echo)
      continue;
    // As with vLLM: text as it was sent; for token ids and truncated text the decoded tokens, with special
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
                          const request_limits& limits, std::int64_t drawn_seed) {
  generation_plan plan = begin_plan(std::move(request.options), true, codec, drawn_seed);
  const std::string prompt = render_conversation(request.chat, codec);
  check_size(prompt, plan.options, true, codec, limits);
  std::vector<std::int32_t> tokens = encode_text(prompt, plan.options.add_special_tokens, codec, "messages");
  truncate(tokens, plan.options, limits);
  plan.prompts.push_back(plan_prompt(std::move(tokens), plan.options, true, limits));
  limit_answer(plan, limits.max_response_bytes);
  return plan;
}

} // namespace troupe::openai
