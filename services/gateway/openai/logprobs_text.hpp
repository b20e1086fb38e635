// Writes logprobs of whole answers as JSON text. There can be millions of entries, so only a block of tokens
// at a time is held as a JSON tree.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "services/gateway/openai/logprobs.hpp"

namespace troupe::openai {

/// Writes the same text as `legacy_logprobs` and `chat_logprobs` of all tokens together.
class logprobs_text {
 public:
  logprobs_text(bool chat, const logprob_style& style);

  /// Adds the next tokens.
  void add(std::span<const placed_token> tokens);

  /// Appends the object.
  void write_to(std::string& out) const;

 private:
  const bool chat_;
  const logprob_style style_;
  std::vector<std::string> lists_; ///< the elements of each array of the object
};

/// Appends the result of `prompt_logprobs`.
void write_prompt_logprobs(std::string& out, std::span<const generated_token> tokens,
                           const text_codec& codec);

} // namespace troupe::openai
