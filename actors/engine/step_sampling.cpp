#include "actors/engine/step_sampling.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/sampling.hpp"

namespace troupe {

namespace {

/// Data of one sequence to which a kernels::sampling_row points.
struct sampling_input {
  std::vector<kernels::token_bias> bias;
  std::vector<kernels::token_count> counts;
  std::vector<std::uint32_t> forbidden;
  std::vector<std::uint32_t> allowed;
};

bool has_penalties(const sampling_params& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}

/// @returns whether one more token would complete `word`
bool is_open(const std::vector<std::int32_t>& word, std::span<const std::int32_t> emitted) {
  const auto before = word.size() - 1;
  return before <= emitted.size()
         && std::equal(word.begin(), word.end() - 1, emitted.end() - static_cast<std::ptrdiff_t>(before));
}

/// The tokens of a sequence before a position: the known ones, then the guesses in rows of the step.
std::vector<std::int32_t> tokens_before(const attention_step& step, const wanted_token& wanted) {
  const auto sequence = step.rows[wanted.row].sequence;
  const auto& known = step.sequences[sequence].tokens->tokens;
  std::vector<std::int32_t> result(
      known.begin(),
      known.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(known.size(), wanted.position)));
  for (std::uint32_t i = 0; i <= wanted.row && result.size() < wanted.position; ++i)
    if (const auto& row = step.rows[i]; row.sequence == sequence && row.position == result.size())
      result.push_back(static_cast<std::int32_t>(row.token));
  return result;
}

/// @param tokens  of the sequence, before the one to draw
sampling_input input_of(const sequence_tokens& sequence, std::span<const std::int32_t> tokens,
                        std::span<const std::int32_t> allowed) {
  sampling_input input;
  const auto& params = sequence.sampling;
  for (auto [token, value] : params.logit_bias)
    input.bias.push_back({static_cast<std::uint32_t>(token), value});
  if (has_penalties(params)) {
    std::map<std::int32_t, std::uint32_t> counts;
    for (std::size_t i = 0; i < tokens.size(); ++i)
      counts[tokens[i]] += i < sequence.num_prompt ? 0U : 1U;
    for (auto [token, in_output] : counts)
      input.counts.push_back({static_cast<std::uint32_t>(token), in_output});
  }
  for (std::int32_t token : allowed)
    input.allowed.push_back(static_cast<std::uint32_t>(token));
  const auto emitted = tokens.subspan(sequence.num_prompt);
  for (const auto& word : params.bad_words)
    if (is_open(word, emitted))
      input.forbidden.push_back(static_cast<std::uint32_t>(word.back()));
  if (emitted.size() < static_cast<std::size_t>(std::max(params.min_tokens, 0)))
    for (std::int32_t token : params.stop_token_ids)
      input.forbidden.push_back(static_cast<std::uint32_t>(token));
  return input;
}

kernels::sampling_params kernel_params(const sampling_params& p) {
  return {.temperature = p.temperature,
          .top_k = static_cast<std::uint32_t>(std::max(p.top_k, 0)),
          .top_p = p.top_p,
          .min_p = p.min_p,
          .repetition_penalty = p.repetition_penalty,
          .presence_penalty = p.presence_penalty,
          .frequency_penalty = p.frequency_penalty};
}

generated_token report(const kernels::sampled_token& sampled, std::span<const kernels::token_logprob> top,
                       bool with_logprob) {
  generated_token token;
  token.token = static_cast<std::int32_t>(sampled.token);
  if (with_logprob) {
    token.logprob = sampled.logprob;
    token.rank = static_cast<std::int32_t>(sampled.rank);
    for (std::uint32_t i = 0; i < sampled.num_top; ++i)
      token.top.push_back(
          {static_cast<std::int32_t>(top[i].token), top[i].logprob, static_cast<std::int32_t>(i + 1)});
  }
  return token;
}

} // namespace

void answer_wanted(const std::function<void(const model::token_requests&)>& sample,
                   const attention_step& step, std::span<const wanted_token> wanted,
                   std::vector<step_token>& tokens) {
  std::vector<std::vector<kernels::token_logprob>> top(wanted.size());
  std::vector<sampling_input> inputs(wanted.size()); // `drawn` points to them
  std::vector<std::uint32_t> rows;
  std::vector<kernels::sampling_row> drawn;
  std::vector<kernels::logprob_row> known;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& one = wanted[i];
    const auto& sequence = *step.sequences[step.rows[one.row].sequence].tokens;
    const auto& params = sequence.sampling;
    const bool draws = one.purpose == token_purpose::sample;
    const auto num_top =
        static_cast<std::uint32_t>(std::max(draws ? params.num_logprobs : params.prompt_logprobs, 0));
    top[i].resize(num_top);
    rows.push_back(one.row);
    if (draws) {
      inputs[i] = input_of(sequence, tokens_before(step, one), one.allowed);
      drawn.push_back({.logits_row = i,
                       .params = kernel_params(params),
                       .key = {params.seed, sequence.id.choice, one.position, 0},
                       .logit_bias = inputs[i].bias,
                       .counts = inputs[i].counts,
                       .forbidden = inputs[i].forbidden,
                       .allowed = inputs[i].allowed,
                       .num_logprobs = num_top,
                       .top = top[i]});
    } else {
      known.push_back({.logits_row = i,
                       .token = static_cast<std::uint32_t>(sequence.tokens[one.position]),
                       .num_logprobs = num_top,
                       .top = top[i]});
    }
  }
  std::vector<kernels::sampled_token> drawn_tokens(drawn.size());
  std::vector<kernels::sampled_token> known_tokens(known.size());
  sample({rows, drawn, drawn_tokens, known, known_tokens});
  auto next_drawn = drawn_tokens.begin();
  auto next_known = known_tokens.begin();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& one = wanted[i];
    const auto sequence = step.rows[one.row].sequence;
    step_token out{.sequence = sequence, .position = one.position, .purpose = one.purpose};
    if (one.purpose == token_purpose::sample) {
      out.is_broken = std::isnan(next_drawn->logprob);
      out.token = report(*next_drawn++, top[i], step.sequences[sequence].tokens->sampling.num_logprobs >= 0);
    } else {
      out.token = report(*next_known++, top[i], true);
    }
    tokens.push_back(std::move(out));
  }
}

} // namespace troupe
