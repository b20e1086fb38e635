// Bodies and stream events of completions and chats, in OpenAI's exact shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "services/gateway/openai/choice.hpp"
#include "services/gateway/openai/plan.hpp"

namespace troupe::openai {

struct token_usage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
};

/// A choice with what it has gained: all of it, or what is new.
struct answered_choice {
  uint32_t index = 0; ///< prompt × n + choice, as OpenAI numbers them
  choice_delta gained;
  const choice* state = nullptr;
  const planned_prompt* prompt = nullptr;                        ///< the prompt it continues
  const std::vector<generated_token>* prompt_logprobs = nullptr; ///< positions 1.., where asked for
};

/// Formats one response. Every function returns JSON text; streams wrap it with as_event.
class response_writer {
 public:
  /// @param plan  outlives the writer
  response_writer(std::string request_id, std::string model, int64_t created, const generation_plan& plan,
                  const text_codec& codec);

  // The answer of a request that does not stream, from its beginning to its end: each function appends to
  // it. All choices have finished.
  void begin_body(std::string& body) const;
  /// @param first  of the answer; the others follow in their order
  void add_choice(std::string& body, const answered_choice& one, bool first) const;
  /// @param any  of the choices, where they are a chat's: what is said of the prompt stands behind them
  void end_body(std::string& body, const answered_choice& any, const token_usage& usage) const;

  /// The chunk that opens a choice of a chat: its role.
  std::string role_chunk(const answered_choice& opened) const;
  /// A token, as vLLM sends them: one chunk each, even where its text is held back or empty. What the clients
  /// count are chunks, so a completion's first one has the echoed prompt too, and the last one the end.
  /// @param first  of its choice
  std::string token_chunk(const answered_choice& grown, bool first) const;
  /// The last chunk of a stream with `include_usage`.
  std::string usage_chunk(const token_usage& usage) const;

 private:
  struct parts;
  std::string id_;
  std::string model_;
  int64_t created_;
  const generation_plan& plan_;
  const text_codec& codec_;
};

/// `data: …` and a blank line: one server-sent event.
std::string as_event(const std::string& json);

/// The end of every stream.
inline constexpr const char* done_event = "data: [DONE]\n\n";

} // namespace troupe::openai
