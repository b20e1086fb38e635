// Wire layout of the structures in generation_messages.hpp: their fields, in order.
#pragma once

#include <caf/meta/type_name.hpp>

#include "actors/protocol/exact_float.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/transport/wire/extensible.hpp"

namespace troupe {

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, biased_token& x) {
  return f(caf::meta::type_name("biased_token"), x.token, exact_float{x.bias});
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, sampling_params& x) {
  return extensible(f, "sampling_params", exact_float{x.temperature}, x.top_k, exact_float{x.top_p},
                    exact_float{x.min_p}, exact_float{x.repetition_penalty}, exact_float{x.presence_penalty},
                    exact_float{x.frequency_penalty}, x.seed, x.max_tokens, x.min_tokens, x.num_logprobs,
                    x.prompt_logprobs, x.stop_token_ids, x.logit_bias, x.allowed_token_ids, x.bad_words);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, generation_request& x) {
  return extensible(f, "generation_request", x.id, x.attempt, x.priority, x.prompt, x.emitted, x.sampling,
                    x.context, x.cache_salt);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, token_logprob& x) {
  return f(caf::meta::type_name("token_logprob"), x.token, exact_float{x.logprob}, x.rank);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, generated_token& x) {
  return f(caf::meta::type_name("generated_token"), x.token, exact_float{x.logprob}, x.rank, x.top);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, token_update& x) {
  return extensible(f, "token_update", x.id, x.attempt, x.first_index, x.tokens, x.prompt_logprobs, x.finish,
                    x.num_cached);
}

template <class Inspector>
typename Inspector::result_type lay_out(Inspector& f, sequence_failed& x) {
  return extensible(f, "sequence_failed", x.id, x.attempt, x.code, x.text);
}

} // namespace troupe
