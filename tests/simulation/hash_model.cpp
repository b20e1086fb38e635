#include "tests/simulation/hash_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace troupe {

namespace {

/// Boost's hash_combine, and behind it a finalizer with constants of MurmurHash3 and SplitMix64: every input
/// bit reaches every output bit.
std::uint64_t hash_of_pair(std::uint64_t a, std::uint64_t b) {
  auto x = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t digest_of(const std::byte* row, std::size_t num_bytes) {
  std::uint64_t result = num_bytes;
  for (std::size_t i = 0; i < num_bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, row + i, 8);
    result = hash_of_pair(result, word);
  }
  return result;
}

void expand(std::uint64_t seed, std::byte* row, std::size_t num_bytes) {
  for (std::size_t i = 0; i < num_bytes; i += 8) {
    const auto word = hash_of_pair(seed, i);
    std::memcpy(row + i, &word, 8);
  }
}

/// In (−8, 0], as log probabilities are.
float logprob_from(std::uint64_t hash) {
  return -static_cast<float>(hash % 8000) / 1000.0F;
}

bool is_stop(const sampling_params& sampling, std::int32_t token) {
  return std::find(sampling.stop_token_ids.begin(), sampling.stop_token_ids.end(), token)
         != sampling.stop_token_ids.end();
}

} // namespace

std::uint64_t hash_model::embed(std::int32_t token, std::uint32_t position) {
  return hash_of_pair(static_cast<std::uint64_t>(token) + 1, position);
}

std::uint64_t hash_model::attend(std::uint64_t digest, std::uint64_t key) {
  return hash_of_pair(digest, key);
}

std::uint64_t hash_model::attended(std::uint32_t layer, std::uint64_t state, std::uint64_t digest) {
  return hash_of_pair(hash_of_pair(state, digest), layer);
}

std::uint64_t hash_model::dense(std::uint32_t layer, std::uint64_t state) {
  return hash_of_pair(state, ~std::uint64_t{layer});
}

std::vector<std::uint32_t> hash_model::route(std::uint32_t layer, std::uint64_t state) const {
  const auto experts = shape.layer_experts.at(layer);
  std::vector<std::uint32_t> result;
  for (std::uint64_t draw = 0; result.size() < shape.num_topk; ++draw) {
    // 2^-53: a uniform number in [0, 1). A skewed draw that keeps repeating itself gives way to an even one.
    const auto u = static_cast<double>(hash_of_pair(hash_of_pair(state, layer), draw) >> 11) * 0x1p-53;
    const auto share = draw < 64 ? std::pow(u, 1 + skew) : u;
    const auto expert = std::min(experts - 1, static_cast<std::uint32_t>(share * experts));
    if (std::find(result.begin(), result.end(), expert) == result.end())
      result.push_back(expert);
  }
  return result;
}

void hash_model::activations(std::uint64_t state, std::byte* row) const {
  expand(state, row, shape.row_bytes);
}

void hash_model::expert(std::uint32_t layer, std::uint32_t expert, const std::byte* row,
                        std::byte* output) const {
  expand(hash_of_pair(digest_of(row, shape.row_bytes), std::uint64_t{layer} << 32 | expert), output,
         shape.row_bytes);
}

std::uint64_t hash_model::combine(std::uint32_t layer, std::uint64_t state,
                                  std::span<const std::byte* const> outputs) const {
  auto result = hash_of_pair(state, layer);
  for (const auto* output : outputs)
    result = hash_of_pair(result, digest_of(output, shape.row_bytes));
  return result;
}

generated_token hash_model::sample(std::uint64_t state, const sequence_tokens& sequence,
                                   std::uint32_t position) const {
  const auto& sampling = sequence.sampling;
  const auto num_new =
      static_cast<std::int32_t>(sequence.tokens.size()) - static_cast<std::int32_t>(sequence.num_prompt);
  auto seed = state;
  if (sampling.temperature > 0)
    seed =
        hash_of_pair(hash_of_pair(state, sampling.seed), std::uint64_t{sequence.id.choice} << 32 | position);
  std::int32_t token = 0;
  for (std::uint64_t draw = 0;; ++draw) {
    token = static_cast<std::int32_t>(hash_of_pair(seed, draw) % shape.vocab_size);
    if (num_new >= sampling.min_tokens || !is_stop(sampling, token))
      break;
  }
  return score(state, token, sampling.num_logprobs);
}

generated_token hash_model::score(std::uint64_t state, std::int32_t token, std::int32_t num_logprobs) const {
  generated_token result;
  result.token = token;
  if (num_logprobs < 0)
    return result;
  const auto hash = hash_of_pair(state, static_cast<std::uint64_t>(token));
  result.logprob = logprob_from(hash);
  result.rank = 1 + static_cast<std::int32_t>(hash >> 32) % static_cast<std::int32_t>(shape.vocab_size);
  for (std::int32_t i = 0; i < num_logprobs; ++i) {
    const auto other = hash_of_pair(state, static_cast<std::uint64_t>(i));
    result.top.push_back(
        {static_cast<std::int32_t>(other % shape.vocab_size), logprob_from(other >> 20), i + 1});
  }
  return result;
}

hash_model_output hash_model_tokens(const hash_model& model, const generation_request& request,
                                    std::uint32_t max_positions) {
  hash_model_output result;
  sequence_tokens sequence{request.id, request.sampling, static_cast<std::uint32_t>(request.prompt.size()),
                           request.prompt};
  sequence.tokens.insert(sequence.tokens.end(), request.emitted.begin(), request.emitted.end());
  const auto& shape = model.shape;
  const auto layers = static_cast<std::uint32_t>(shape.layer_experts.size());
  std::vector<std::uint64_t> digests(layers); // of the keys so far, by layer
  std::vector<std::byte> row(shape.row_bytes);
  std::vector<std::byte> outputs(std::size_t{shape.row_bytes} * shape.num_topk);
  std::vector<const std::byte*> pointers;
  for (std::uint32_t i = 0; i < shape.num_topk; ++i)
    pointers.push_back(outputs.data() + std::size_t{i} * shape.row_bytes);

  for (std::uint32_t position = 0;; ++position) {
    auto state = hash_model::embed(sequence.tokens[position], position);
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      digests[layer] = hash_model::attend(digests[layer], state);
      state = hash_model::attended(layer, state, digests[layer]);
      if (shape.layer_experts[layer] == 0) {
        state = hash_model::dense(layer, state);
        continue;
      }
      model.activations(state, row.data());
      const auto experts = model.route(layer, state);
      for (std::size_t i = 0; i < experts.size(); ++i)
        model.expert(layer, experts[i], row.data(), outputs.data() + i * shape.row_bytes);
      state = model.combine(layer, state, pointers);
    }
    if (position + 1 < sequence.num_prompt && request.sampling.prompt_logprobs >= 0
        && request.emitted.empty())
      result.prompt_logprobs.push_back(
          model.score(state, sequence.tokens[position + 1], request.sampling.prompt_logprobs));
    if (position + 1 < sequence.tokens.size())
      continue;
    const auto drawn = model.sample(state, sequence, position + 1);
    const auto num_new = static_cast<std::int32_t>(sequence.tokens.size() + 1 - sequence.num_prompt);
    sequence.tokens.push_back(drawn.token);
    result.tokens.push_back(drawn);
    if (num_new > request.sampling.min_tokens && is_stop(request.sampling, drawn.token)) {
      result.finish = finish_reason::stop;
      return result;
    }
    if (num_new >= request.sampling.max_tokens || sequence.tokens.size() >= max_positions) {
      result.finish = finish_reason::length;
      return result;
    }
  }
}

} // namespace troupe
