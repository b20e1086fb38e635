#include "actors/attention/generation_check.hpp"

#include <cmath>

namespace troupe {

std::string flaw_of(const generation_request& request, const model_shape& shape) {
  const auto vocab = static_cast<int64_t>(shape.vocab_size);
  const auto outside = [&](int32_t token) { return token < 0 || token >= vocab; };
  const auto names = [&](const char* where, size_t index, int32_t token) {
    return std::string{where} + " " + std::to_string(index) + " is " + std::to_string(token)
           + ", and the vocabulary has " + std::to_string(vocab) + " tokens";
  };
  if (request.prompt.empty())
    return "the prompt is empty";
  for (size_t i = 0; i < request.prompt.size(); ++i)
    if (outside(request.prompt[i]))
      return names("prompt token", i, request.prompt[i]);
  for (size_t i = 0; i < request.emitted.size(); ++i)
    if (outside(request.emitted[i]))
      return names("emitted token", i, request.emitted[i]);
  const auto& sampling = request.sampling;
  for (size_t i = 0; i < sampling.logit_bias.size(); ++i) {
    if (outside(sampling.logit_bias[i].token))
      return names("logit_bias token", i, sampling.logit_bias[i].token);
    if (!std::isfinite(sampling.logit_bias[i].bias))
      return "a logit_bias is not a finite number";
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
