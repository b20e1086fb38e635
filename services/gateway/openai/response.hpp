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

/// A choice with all it has gained.
struct finished_choice {
  uint32_t index = 0; ///< prompt × n + choice, as OpenAI numbers them
  choice_delta gained;
  const choice* state = nullptr;                                 ///< finished
  const planned_prompt* prompt = nullptr;                        ///< the prompt it continues
  const std::vector<generated_token>* prompt_logprobs = nullptr; ///< positions 1.., where asked for
};

/// Formats one response. Every function returns JSON text; streams wrap it with as_event.
class response_writer {
 public:
  /// @param plan  outlives the writer
  response_writer(std::string request_id, std::string model, int64_t created, const generation_plan& plan,
                  const text_codec& codec);

  /// The answer of a request that does not stream.
  std::string body(const std::vector<finished_choice>& choices, const token_usage& usage) const;

  /// The chunk that opens a choice: a chat's role, an echoed prompt, prompt token ids; empty when the choice
  /// needs none.
  std::string first_chunk(const finished_choice& opened, const token_usage& usage) const;
  /// What a choice has gained.
  std::string delta_chunk(uint32_t index, const choice_delta& delta, const token_usage& usage) const;
  /// The end of a choice.
  std::string finish_chunk(uint32_t index, const choice& state, const token_usage& usage) const;
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
