#include "actors/attention/step_rows.hpp"

#include <utility>

namespace troupe {

void add_slice(attention_step& step, step_sequence sequence, const batch_policy::slice& slice,
               std::uint32_t block_tokens, bool wants_prompt_logprobs) {
  const auto number = static_cast<std::uint32_t>(step.sequences.size());
  const auto& known = *sequence.tokens;
  const auto& blocks = sequence.tables->front();
  const auto end = slice.first_position + slice.num_rows;
  for (auto position = slice.first_position; position < end; ++position) {
    const auto row = static_cast<std::uint32_t>(step.rows.size());
    const auto slot = blocks.at(position / block_tokens) * block_tokens + position % block_tokens;
    step.rows.push_back({static_cast<std::uint32_t>(known.tokens.at(position)), position, number, slot});
    const auto next = position + 1;
    if (slice.last && next == end)
      step.wanted.push_back({row, next, token_purpose::sample, known.sampling.allowed_token_ids});
    else if (wants_prompt_logprobs && next < known.num_prompt)
      step.wanted.push_back({row, next, token_purpose::report});
  }
  step.sequences.push_back(std::move(sequence));
}

} // namespace troupe
