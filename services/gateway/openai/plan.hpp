// Turns a checked request into a plan for the engine: prompts as tokens, limits resolved, seed drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "services/gateway/openai/request.hpp"
#include "services/gateway/openai/text_codec.hpp"

namespace troupe::openai {

/// One prompt of a request, ready to run.
struct planned_prompt {
  std::vector<std::int32_t> tokens; ///< never empty
  std::string echo;                 ///< the text that `echo` repeats
  /// [tokens] start of each token in `echo`, in characters; only if logprobs of the echo are requested
  std::vector<std::size_t> echo_offsets;
  std::int32_t max_tokens = 0; ///< new tokens, at least 1
};

/// A whole request, ready to run.
struct generation_plan {
  bool chat = false;
  /// `sampling` is complete except for max_tokens. The prompts share it: its lists can have hundreds of KiB,
  /// and there can be hundreds of prompts.
  generation_options options;
  std::int64_t seed = 0; ///< the client's, or drawn; reported
  std::vector<planned_prompt> prompts;
};

/// Tokenizes (and renders) the prompts. May take seconds: not for an I/O thread.
/// @param drawn_seed  used if the client sent none
/// @throws api_error 400 for an empty prompt, a prompt beyond the context, a conversation that the template
/// refuses, or an answer that could be larger than `max_response_bytes`; 422 for a chat with a model without
/// a template
generation_plan make_plan(completion_request request, const text_codec& codec, const request_limits& limits,
                          std::int64_t drawn_seed);
generation_plan make_plan(chat_completion_request request, const text_codec& codec,
                          const request_limits& limits, std::int64_t drawn_seed);

/// The sampling parameters for this prompt: a complete copy of the plan's.
sampling_params sampling_of(const generation_plan& plan, const planned_prompt& prompt);

/// A conversation's prompt.
/// @throws api_error as make_plan
std::string render_conversation(const conversation& chat, const text_codec& codec);

/// The tokens of a conversation's prompt.
/// @throws api_error as make_plan
std::vector<std::int32_t> encode_conversation(const conversation& chat, bool add_special_tokens,
                                              const text_codec& codec);

/// `codec.encode` with its errors as a 400 that names `param`.
std::vector<std::int32_t> encode_text(const std::string& text, bool add_special_tokens,
                                      const text_codec& codec, const char* param);

} // namespace troupe::openai
