// OpenAI's and vLLM's requests for generated text, read from JSON and checked field by field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/protocol/generation_messages.hpp"

namespace troupe::openai {

/// Recommendations of a model's `generation_config.json`; a request's own parameters win.
struct sampling_defaults {
  std::optional<float> temperature;
  std::optional<std::int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<std::int32_t> max_new_tokens; ///< bound if the request gives none
};

/// The limits that requests are checked against.
struct request_limits {
  std::uint32_t max_model_len = 0;           ///< prompt and new tokens together
  bool trust_chat_template = false;          ///< allow templates in requests
  std::int32_t vocab_size = 0;               ///< number of the model's token ids
  std::uint32_t max_sequences = 512;         ///< prompts × n of one request
  std::size_t max_response_bytes = 64 << 20; ///< of a non-streaming answer
  std::vector<std::int32_t> eos_token_ids;   ///< any of them ends a sequence unless ignore_eos
  sampling_defaults defaults;
};

/// A prompt as the client sent it: text, or token ids.
struct prompt_input {
  std::optional<std::string> text;
  std::vector<std::int32_t> tokens; ///< if there is no text
};

/// The fields that completions and chats share.
struct generation_options {
  std::string model;                      ///< as sent; empty: the served one
  sampling_params sampling;               ///< from the fields alone; a plan completes it
  std::optional<std::int64_t> seed;       ///< as sent
  std::uint32_t num_choices = 1;          ///< per prompt
  std::optional<std::int32_t> max_tokens; ///< as sent; 0 only with echo
  bool unlimited = false;                 ///< sent as -1: as many new tokens as fit
  bool echo = false;
  std::optional<std::int32_t> logprobs;        ///< alternatives per token; 0: the token's own only
  std::optional<std::int32_t> prompt_logprobs; ///< vLLM's extra field
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids; ///< the client's own
  /// Strings of `stop` that are one special token each, which the text leaves out; filled in by a plan.
  std::map<std::int32_t, std::string> special_stops;
  bool include_stop = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false; ///< vLLM: usage in every chunk; only with include_usage
  bool add_special_tokens = true;
  std::optional<std::int32_t>
      truncate_prompt;       ///< keep N tokens of each prompt, at least 1; -1: as many as fit
  bool truncate_left = true; ///< keep the last ones
  std::vector<std::string> bad_words;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  bool tokens_as_ids = false; ///< logprobs name tokens "token_id:N"
  std::int32_t priority = 0;
  std::string cache_salt; ///< vLLM's: prompts are shared with requests of the same salt only
};

/// POST /v1/completions.
struct completion_request {
  generation_options options;
  std::vector<prompt_input> prompts; ///< never empty
};

/// The part of a chat request that becomes the prompt; all members are JSON text.
struct conversation {
  std::string messages;
  std::string tools;
  std::string extra;
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;                 ///< the last message ends with `continuation_mark`: cut the prompt there
  std::string chat_template; ///< the request's own; empty: the model's
  /// Names of earlier calls whose arguments are no JSON object; the template gets `{}` for them.
  std::vector<std::string> replaced_arguments;
};

/// Marks the end of the prompt when the conversation's last message is continued: templates may write
/// something after it. transformers uses the same mark. Its final blank shows whether the template keeps
/// blanks.
inline constexpr std::string_view continuation_mark = "CONTINUE_FINAL_MESSAGE_TAG ";

/// POST /v1/chat/completions.
struct chat_completion_request {
  generation_options options;
  conversation chat;
};

/// POST /tokenize: of a prompt, or of a conversation.
struct tokenize_request {
  std::string model;
  std::optional<std::string> prompt;
  std::optional<conversation> chat; ///< if there is no prompt
  bool add_special_tokens = true;
  bool return_token_strings = false;
};

/// POST /detokenize.
struct detokenize_request {
  std::string model;
  std::vector<std::int32_t> tokens;
};

/// All of these throw api_error: 400 naming the malformed or out-of-range field, 422 naming an unserved
/// feature. Unknown fields are ignored, as by vLLM.
completion_request parse_completion_request(std::string_view body, const request_limits& limits);
chat_completion_request parse_chat_completion_request(std::string_view body, const request_limits& limits);
tokenize_request parse_tokenize_request(std::string_view body, const request_limits& limits);
detokenize_request parse_detokenize_request(std::string_view body, const request_limits& limits);

} // namespace troupe::openai
