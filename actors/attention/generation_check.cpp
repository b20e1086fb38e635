#include "actors/attention/generation_check.hpp"

#include <cmath>

namespace troupe {

std::string flaw_of(const generation_request& request, const model_shape& shape) {
  const auto vocab = static_cast<std::int64_t>(shape.vocab_size);
  const auto outside = [&](std::int32_t token) { return token < 0 || token >= vocab; };
  const auto names = [&](const char* where, std::size_t index, std::int32_t token) {
    return std::string{where} + " " + std::to_string(index) + " is " + std::to_string(token)
           + ", and the vocabulary has " + std::to_string(vocab) + " tokens";
  };
  if (request.prompt.empty())
    return "the prompt is empty";
  for (std::size_t i = 0; i < request.prompt.size(); ++i)
    if (outside(request.prompt[i]))
      return names("prompt token", i, request.prompt[i]);
  for (std::size_t i = 0; i < request.emitted.size(); ++i)
    if (outside(request.emitted[i]))
      return names("emitted token", i, request.emitted[i]);
  const auto& sampling = request.sampling;
  for (std::size_t i = 0; i < sampling.logit_bias.size(); ++i) {
    if (outside(sampling.logit_bias[i].token))
      return names("logit_bias token", i, sampling.logit_bias[i].token);
    if (!std::isfinite(sampling.logit_bias[i].bias))
      return "a logit_bias is not a finite number";
  }
  if (sampling.allowed_token_ids.size() > max_allowed_tokens)
    return std::to_string(sampling.allowed_token_ids.size()) + " allowed_token_ids are more than the "
           + std::to_string(max_allowed_tokens) + " that may be";
  for (std::size_t i = 0; i < sampling.allowed_token_ids.size(); ++i)
    if (outside(sampling.allowed_token_ids[i]))
      return names("allowed_token_ids entry", i, sampling.allowed_token_ids[i]);
  if (sampling.bad_words.size() > max_bad_word_sequences)
    return std::to_string(sampling.bad_words.size()) + " bad_words are more than the "
           + std::to_string(max_bad_word_sequences) + " that may be";
  for (const auto& word : sampling.bad_words) {
    if (word.empty() || word.size() > max_bad_word_tokens)
      return "an entry of bad_words has " + std::to_string(word.size()) + " tokens, and 1 to "
             + std::to_string(max_bad_word_tokens) + " may be";
    for (std::size_t i = 0; i < word.size(); ++i)
      if (outside(word[i]))
        return names("bad_words token", i, word[i]);
  }
  if (sampling.max_tokens < 1)
    return "max_tokens is " + std::to_string(sampling.max_tokens) + ", and at least 1 is needed";
  const auto finite = std::isfinite(sampling.temperature) && std::isfinite(sampling.top_p)
                      && std::isfinite(sampling.min_p) && std::isfinite(sampling.repetition_penalty)
                      && std::isfinite(sampling.presence_penalty)
                      && std::isfinite(sampling.frequency_penalty);
  if (!finite || sampling.temperature < 0 || sampling.repetition_penalty <= 0 || sampling.top_k < 0)
    return "a sampling parameter is out of range";
  if (sampling.num_logprobs > vocab || sampling.prompt_logprobs > vocab)
    return "more logprobs are asked for than the vocabulary has tokens";
  return {};
}

} // namespace troupe
