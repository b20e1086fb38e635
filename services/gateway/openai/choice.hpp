// One choice of a request: its tokens become text, logprobs and, at last, a finish reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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

/// A token whose text the client has, with where in the choice's text it begins (in characters).
struct placed_token {
  generated_token token;
  size_t text_offset = 0;
};

/// What a choice has gained.
struct choice_delta {
  std::string text;
  std::vector<placed_token> tokens; ///< only when logprobs were asked for
  std::vector<int32_t> token_ids;   ///< only when they were asked for

  bool empty() const noexcept { return text.empty() && tokens.empty() && token_ids.empty(); }
};

/// Appends `more` to `delta`.
void append(choice_delta& delta, choice_delta more);

/// What ended a choice: nothing special, a stop token, or a stop string (vLLM's `stop_reason`).
using stop_cause = std::variant<std::monostate, int32_t, std::string>;

/// The text of one choice as it grows. Text that may become a stop string is held back, and tokens with it,
/// so that what the client gets always belongs together. Deterministic in the tokens, whatever their packing.
class choice {
 public:
  /// @param options      outlives the choice
  /// @param prompt       the tokens that it continues
  /// @param text_offset  characters that stand before its text in the response (an echoed prompt)
  choice(const text_codec& codec, const generation_options& options, std::span<const int32_t> prompt,
         size_t text_offset = 0);

  /// Takes the next token; none count any more once finished.
  choice_delta push(const generated_token& token);

  /// The engine has ended the sequence. No-op when a stop string ended it before.
  choice_delta finish(finish_reason reason, int32_t stop_token);

  bool finished() const noexcept { return reason_ != finish_reason::none; }

  /// "stop" or "length"; only when finished.
  const char* reason() const noexcept { return reason_ == finish_reason::length ? "length" : "stop"; }

  const stop_cause& cause() const noexcept { return cause_; }

  /// New tokens, the stop token included, as vLLM counts them.
  uint32_t num_tokens() const noexcept { return num_tokens_; }

 private:
  void take_text(const std::string& piece, bool may_stop, choice_delta& delta);
  void release_tokens(choice_delta& delta);

  const generation_options& options_;
  std::unique_ptr<text_stream> stream_;
  stop_matcher stops_;

  struct pending_token {
    placed_token placed;
    size_t begin = 0; ///< bytes of generated text before it
    size_t end = 0;
  };

  std::deque<pending_token> pending_;
  size_t produced_bytes_ = 0;
  size_t produced_characters_;
  uint32_t num_tokens_ = 0;
  finish_reason reason_ = finish_reason::none;
  stop_cause cause_;
};

/// Characters (code points) of valid UTF-8.
size_t count_characters(std::string_view utf8);

} // namespace troupe::openai
