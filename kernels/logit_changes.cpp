#include "kernels/logit_changes.hpp"

#include <algorithm>
#include <limits>

namespace troupe::kernels {

namespace {

constexpr float never_chosen = -std::numeric_limits<float>::infinity();

bool penalises(const sampling_params& p) {
  return p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F;
}

bool allows_one(const sampling_row& row, std::size_t vocab) {
  return std::any_of(row.allowed.begin(), row.allowed.end(), [&](std::uint32_t token) {
    return token < vocab
           && std::find(row.forbidden.begin(), row.forbidden.end(), token) == row.forbidden.end();
  });
}

/// @param at  place of a token's logit; null: the token is not wanted
template <class At>
void change(const sampling_row& row, std::size_t vocab, const At& at) {
  for (const token_bias& bias : row.logit_bias)
    if (float* logit = at(bias.token))
      *logit += bias.bias;
  if (row.allowed.empty() || row.forbidden.empty() || allows_one(row, vocab))
    for (const std::uint32_t token : row.forbidden)
      if (float* logit = at(token))
        *logit = never_chosen;
  const sampling_params& p = row.params;
  if (!penalises(p))
    return;
  for (const token_count& count : row.counts) {
    float* logit = at(count.token);
    if (logit == nullptr)
      continue;
    if (p.repetition_penalty != 1.0F)
      *logit = *logit > 0.0F ? *logit / p.repetition_penalty : *logit * p.repetition_penalty;
    if (count.in_output != 0) {
      *logit -= p.frequency_penalty * static_cast<float>(count.in_output);
      *logit -= p.presence_penalty;
    }
  }
}

} // namespace

bool changes_logits(const sampling_row& row) {
  return !row.logit_bias.empty() || !row.forbidden.empty() || !row.allowed.empty()
         || (penalises(row.params) && !row.counts.empty());
}

std::vector<std::uint32_t> changed_tokens(const sampling_row& row, std::size_t vocab) {
  std::vector<std::uint32_t> tokens(row.allowed.begin(), row.allowed.end());
  if (tokens.empty()) {
    for (const token_bias& bias : row.logit_bias)
      tokens.push_back(bias.token);
    tokens.insert(tokens.end(), row.forbidden.begin(), row.forbidden.end());
    if (penalises(row.params))
      for (const token_count& count : row.counts)
        tokens.push_back(count.token);
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  while (!tokens.empty() && tokens.back() >= vocab)
    tokens.pop_back();
  return tokens;
}

void change_logits(const sampling_row& row, const float* raw, float* logits, std::size_t vocab) {
  if (row.allowed.empty()) {
    std::copy_n(raw, vocab, logits);
  } else {
    std::fill_n(logits, vocab, never_chosen);
    for (const std::uint32_t token : row.allowed)
      if (token < vocab)
        logits[token] = raw[token];
  }
  change(row, vocab, [&](std::uint32_t token) { return token < vocab ? logits + token : nullptr; });
}

void change_logits(const sampling_row& row, std::span<const std::uint32_t> tokens, float* logits,
                   std::size_t vocab) {
  change(row, vocab, [&](std::uint32_t token) -> float* {
    const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
    return found != tokens.end() && *found == token ? logits + (found - tokens.begin()) : nullptr;
  });
}

} // namespace troupe::kernels
