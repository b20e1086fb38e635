// Writes bodies and stream events of completions and chats in OpenAI's exact shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/gateway/openai/choice.hpp"
#include "services/gateway/openai/plan.hpp"

namespace troupe::openai {

struct token_usage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::optional<std::uint64_t> cached_tokens{}; ///< of the prompts; absent: not known yet
};

/// A choice with its output: all of it, or the new part.
struct answered_choice {
  std::uint32_t index = 0; ///< prompt × n + choice, as OpenAI numbers them
  choice_delta gained;
  const choice* state = nullptr;
  const planned_prompt* prompt = nullptr;                        ///< the prompt it continues
  const std::vector<generated_token>* prompt_logprobs = nullptr; ///< positions 1.., if requested
};

/// Formats one response. Every function returns JSON text; streams wrap it with as_event.
class response_writer {
 public:
  /// @param plan  outlives the writer
  response_writer(std::string request_id, std::string model, std::string fingerprint, std::int64_t created,
                  const generation_plan& plan, const text_codec& codec);

  // A non-streaming answer from start to end: each function appends to it. All choices have finished.
  void begin_body(std::string& body) const;
  /// @param first  of the answer; the others follow in order
  void add_choice(std::string& body, const answered_choice& one, bool first) const;
  /// @param any  one of the choices: a chat's body ends with the report on its prompt
  void end_body(std::string& body, const answered_choice& any, const token_usage& usage) const;

  /// The chunk that opens a chat's choice with its role.
  std::string role_chunk(const answered_choice& opened) const;
  /// One chunk per token, as vLLM sends them, even if its text is held back or empty: clients count chunks.
  /// So a completion's first chunk also has the echoed prompt, and the last one the end.
  /// @param first  of its choice
  std::string token_chunk(const answered_choice& grown, bool first) const;
  /// The last chunk of a stream with `include_usage`.
  std::string usage_chunk(const token_usage& usage) const;

 private:
  struct parts;
  std::string id_;
  std::string model_;
  std::string fingerprint_;
  std::int64_t created_;
  const generation_plan& plan_;
  const text_codec& codec_;
};

/// `data: …` and a blank line: one server-sent event.
std::string as_event(const std::string& json);

/// The end of every stream.
inline constexpr const char* done_event = "data: [DONE]\n\n";

} // namespace troupe::openai
