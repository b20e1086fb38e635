// One choice of a request: its tokens become text, logprobs and, at last, a finish reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "actors/attention/generation_messages.hpp"
#include "services/gateway/openai/stop_matcher.hpp"
#include "services/gateway/openai/text_codec.hpp"

namespace troupe::openai {

struct generation_options;

/// A token with where it begins in the choice's text, in characters. What is not part of the text (a special
/// token that is skipped, a stop string that is cut off) counts from where the text would go on.
struct placed_token {
  generated_token token;
  size_t text_offset = 0;
};

/// What a choice has gained.
struct choice_delta {
  std::string text;
  std::vector<placed_token> tokens; ///< only when logprobs were asked for
  std::vector<int32_t> token_ids;   ///< only when they were asked for
};

/// Appends `more` to `delta`.
void append(choice_delta& delta, choice_delta more);

/// What ended a choice: nothing special, a stop token, or a stop string (vLLM's `stop_reason`).
using stop_cause = std::variant<std::monostate, int32_t, std::string>;

/// The text of one choice as it grows. As with vLLM every counted token has its id and its logprob at once,
/// those of a stop string and the stop token included; text that may become a stop string, or is half a
/// character, is held back. Deterministic in the tokens, whatever their packing.
class choice {
 public:
  /// @param options      outlives the choice
  /// @param prompt       the tokens that it continues
  /// @param text_offset  characters that stand before its text in the response (an echoed prompt)
  choice(const text_codec& codec, const generation_options& options, std::span<const int32_t> prompt,
         size_t text_offset = 0);

  /// Takes the next token; none count any more once finished.
  /// @param reason  not none: it is the last one, and with `stop` the stop token that ended the sequence
  choice_delta push(const generated_token& token, finish_reason reason = finish_reason::none);

  /// The sequence has ended without another token. No-op when it had ended before.
  choice_delta finish(finish_reason reason);

  bool finished() const noexcept { return reason_ != finish_reason::none; }

  /// "stop" or "length"; only when finished.
  const char* reason() const noexcept { return reason_ == finish_reason::length ? "length" : "stop"; }

  const stop_cause& cause() const noexcept { return cause_; }

  /// New tokens, the stop token included, as vLLM counts them.
  uint32_t num_tokens() const noexcept { return num_tokens_; }

 private:
  void take_text(const std::string& piece, choice_delta& delta);
  void end(finish_reason reason, std::optional<int32_t> stop_token, choice_delta& delta);

  const generation_options& options_;
  std::unique_ptr<text_stream> stream_;
  stop_matcher stops_;
  size_t num_characters_; ///< of the text so far, what is held back or cut off included
  uint32_t num_tokens_ = 0;
  finish_reason reason_ = finish_reason::none;
  stop_cause cause_;
};

/// Characters (code points) of valid UTF-8.
size_t count_characters(std::string_view utf8);

} // namespace troupe::openai
