// One choice of a request: turns its tokens into text, logprobs and a finish reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "actors/protocol/generation_messages.hpp"
#include "services/gateway/openai/stop_matcher.hpp"
#include "services/gateway/openai/text_codec.hpp"

namespace troupe::openai {

struct generation_options;

/// A token and its start in the choice's text, in characters. A token outside the text (a skipped special
/// token, a stop string that is cut off) starts where the text would continue.
struct placed_token {
  generated_token token;
  std::size_t text_offset = 0;
};

/// New output of a choice.
struct choice_delta {
  std::string text;
  std::vector<placed_token> tokens;    ///< only if logprobs were requested
  std::vector<std::int32_t> token_ids; ///< only if they were requested
};

/// Appends `more` to `delta`.
void append(choice_delta& delta, choice_delta more);

/// The cause of a choice's end: nothing special, a stop token, or a stop string (vLLM's `stop_reason`).
using stop_cause = std::variant<std::monostate, std::int32_t, std::string>;

/// The growing text of one choice. As with vLLM, every counted token, including those of a stop string and
/// the stop token, has its id and logprob at once. Text is held back while it may become a stop string or is
/// an incomplete character. The result depends only on the tokens, not on their packing.
class choice {
 public:
  /// @param options      outlives the choice
  /// @param prompt       the tokens that it continues
  /// @param text_offset  characters before its text in the response (an echoed prompt)
  choice(const text_codec& codec, const generation_options& options, std::span<const std::int32_t> prompt,
         std::size_t text_offset = 0);

  /// Adds the next token; ignored once finished.
  /// @param reason  not none: this is the last token; with `stop` it is the stop token that ended the
  /// sequence
  choice_delta push(const generated_token& token, finish_reason reason = finish_reason::none);

  /// Ends the sequence without another token. No-op if it has ended.
  choice_delta finish(finish_reason reason);

  bool finished() const noexcept { return reason_ != finish_reason::none; }

  /// "stop" or "length"; valid once finished.
  const char* reason() const noexcept { return reason_ == finish_reason::length ? "length" : "stop"; }

  const stop_cause& cause() const noexcept { return cause_; }

  /// New tokens, the stop token included, as vLLM counts them.
  std::uint32_t num_tokens() const noexcept { return num_tokens_; }

 private:
  void take_text(const std::string& piece, choice_delta& delta);
  void end(finish_reason reason, std::optional<std::int32_t> stop_token, choice_delta& delta);

  const generation_options& options_;
  std::unique_ptr<text_stream> stream_;
  stop_matcher stops_;
  std::size_t num_characters_; ///< of the text so far, including text that is held back or cut off
  std::uint32_t num_tokens_ = 0;
  finish_reason reason_ = finish_reason::none;
  stop_cause cause_;
};

/// Characters (code points) of valid UTF-8.
std::size_t count_characters(std::string_view utf8);

} // namespace troupe::openai
