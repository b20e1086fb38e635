// OpenAI's and vLLM's requests for generated text, read from JSON and checked field by field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/attention/generation_messages.hpp"

namespace troupe::openai {

/// What a model's `generation_config.json` recommends; a request's own parameters win.
struct sampling_defaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> max_new_tokens; ///< at most so many where a request leaves it open
};

/// What requests are checked against.
struct request_limits {
  uint32_t max_model_len = 0;           ///< prompt and new tokens together
  bool trust_chat_template = false;     ///< requests may bring their own
  int32_t vocab_size = 0;               ///< ids that the model knows
  uint32_t max_sequences = 512;         ///< prompts × n of one request
  size_t max_response_bytes = 64 << 20; ///< of an answer that does not stream
  std::vector<int32_t> eos_token_ids;   ///< any of them ends a sequence unless ignore_eos
  sampling_defaults defaults;
};

/// A prompt as the client sent it: text, or token ids.
struct prompt_input {
  std::optional<std::string> text;
  std::vector<int32_t> tokens; ///< when there is no text
};

/// What completions and chats have in common.
struct generation_options {
  std::string model;                 ///< as sent; empty: the served one
  sampling_params sampling;          ///< what the fields say by themselves; a plan completes it
  std::optional<int64_t> seed;       ///< as sent
  uint32_t num_choices = 1;          ///< per prompt
  std::optional<int32_t> max_tokens; ///< as sent; 0 only with echo
  bool echo = false;
  std::optional<int32_t> logprobs;        ///< alternatives per token; 0: the token's own only
  std::optional<int32_t> prompt_logprobs; ///< vLLM's extra field
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids; ///< the client's own
  bool include_stop = false;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false; ///< vLLM: usage in every chunk; only with include_usage
  bool add_special_tokens = true;
  std::optional<int32_t>
      truncate_prompt;       ///< keep so many tokens of each prompt, at least 1; -1: as many as fit
  bool truncate_left = true; ///< keep the last ones
  std::vector<std::string> bad_words;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  bool tokens_as_ids = false; ///< logprobs name tokens "token_id:N"
  int32_t priority = 0;
};

/// POST /v1/completions.
struct completion_request {
  generation_options options;
  std::vector<prompt_input> prompts; ///< never empty
};

/// The part of a chat that becomes the prompt; all members are JSON text.
struct conversation {
  std::string messages;
  std::string tools;
  std::string extra;
  bool add_generation_prompt = true;
  bool continue_final_message =
      false;                 ///< the last message ends with `continuation_mark`: cut the prompt there
  std::string chat_template; ///< the request's own; empty: the model's
  /// Names of earlier calls' arguments that are no JSON object; the template gets `{}` for them.
  std::vector<std::string> replaced_arguments;
};

/// Marks where the prompt of a conversation that continues its last message ends: templates may write
/// something behind it. What transformers writes there. The blank at the end tells whether the template keeps
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
  std::optional<conversation> chat; ///< when there is no prompt
  bool add_special_tokens = true;
  bool return_token_strings = false;
};

/// POST /detokenize.
struct detokenize_request {
  std::string model;
  std::vector<int32_t> tokens;
};

/// All of these throw api_error: 400 naming the field that is malformed or out of range, 422 naming a feature
/// that is not served. Fields that nobody knows are ignored, as by vLLM.
completion_request parse_completion_request(std::string_view body, const request_limits& limits);
chat_completion_request parse_chat_completion_request(std::string_view body, const request_limits& limits);
tokenize_request parse_tokenize_request(std::string_view body, const request_limits& limits);
detokenize_request parse_detokenize_request(std::string_view body, const request_limits& limits);

} // namespace troupe::openai
