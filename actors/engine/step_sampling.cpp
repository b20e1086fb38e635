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

sampling_input input_of(const sequence_tokens& sequence) {
  sampling_input input;
  const auto& params = sequence.sampling;
  for (auto [token, value] : params.logit_bias)
    input.bias.push_back({static_cast<std::uint32_t>(token), value});
  if (has_penalties(params)) {
    std::map<std::int32_t, std::uint32_t> counts;
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i)
      counts[sequence.tokens[i]] += i < sequence.num_prompt ? 0U : 1U;
    for (auto [token, in_output] : counts)
      input.counts.push_back({static_cast<std::uint32_t>(token), in_output});
  }
  for (std::int32_t token : params.allowed_token_ids)
    input.allowed.push_back(static_cast<std::uint32_t>(token));
  const auto emitted = std::span{sequence.tokens}.subspan(sequence.num_prompt);
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

std::vector<logits_request> wanted_logits(const std::vector<step_sequence>& sequences) {
  std::vector<logits_request> wanted;
  std::uint32_t row = 0;
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    const step_sequence& step = sequences[s];
    for (std::uint32_t i = 0; i < step.num_rows; ++i, ++row) {
      std::uint32_t next = step.first_position + i + 1;
      bool samples = step.sample && i + 1 == step.num_rows;
      bool reports = step.prompt_logprobs && next < step.sequence->num_prompt;
      if (samples || reports)
        wanted.push_back({row, s, next, samples});
    }
  }
  return wanted;
}

void answer_logits(const std::function<void(const model::token_requests&)>& sample,
                   std::span<const logits_request> requests, const std::vector<step_sequence>& sequences,
                   std::vector<sampled_sequence>& samples) {
  auto alternatives = [&](const logits_request& request) {
    const auto& params = sequences[request.sequence].sequence->sampling;
    return static_cast<std::uint32_t>(
        std::max(request.sample ? params.num_logprobs : params.prompt_logprobs, 0));
  };
  std::vector<std::vector<kernels::token_logprob>> top(requests.size());
  std::vector<sampling_input> inputs(requests.size()); // `drawn` points to them
  std::vector<std::uint32_t> rows;
  std::vector<kernels::sampling_row> drawn;
  std::vector<kernels::logprob_row> known;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& request = requests[i];
    rows.push_back(request.row);
    const sequence_tokens& sequence = *sequences[request.sequence].sequence;
    top[i].resize(alternatives(request));
    auto num_top = static_cast<std::uint32_t>(top[i].size());
    if (request.sample) {
      inputs[i] = input_of(sequence);
      drawn.push_back({.logits_row = i,
                       .params = kernel_params(sequence.sampling),
                       .key = {sequence.sampling.seed, sequence.id.choice, request.position, 0},
                       .logit_bias = inputs[i].bias,
                       .counts = inputs[i].counts,
                       .forbidden = inputs[i].forbidden,
                       .allowed = inputs[i].allowed,
                       .num_logprobs = num_top,
                       .top = top[i]});
    } else {
      known.push_back({.logits_row = i,
                       .token = static_cast<std::uint32_t>(sequence.tokens[request.position]),
                       .num_logprobs = num_top,
                       .top = top[i]});
    }
  }
  std::vector<kernels::sampled_token> drawn_tokens(drawn.size());
  std::vector<kernels::sampled_token> known_tokens(known.size());
  sample({rows, drawn, drawn_tokens, known, known_tokens});
  std::size_t next_drawn = 0;
  std::size_t next_known = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto& request = requests[i];
    sampled_sequence& out = samples[request.sequence];
    if (request.sample) {
      bool with_logprob = sequences[request.sequence].sequence->sampling.num_logprobs >= 0;
      const kernels::sampled_token& drawn_token = drawn_tokens[next_drawn++];
      out.has_token = true;
      out.is_broken = std::isnan(drawn_token.logprob);
      out.token = report(drawn_token, top[i], with_logprob);
    } else {
      out.prompt_logprobs.push_back(report(known_tokens[next_known++], top[i], true));
    }
  }
}

} // namespace troupe
