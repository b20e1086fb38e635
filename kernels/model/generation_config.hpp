#pragma once

#include "kernels/model/config.hpp"

namespace troupe::model {

/// What a model's authors recommend for sampling; a request's own parameters win over every field. Whatever
/// fits here may stand in for a parameter that a request leaves out.
struct generation_config {
  std::optional<float> temperature;           // finite, not negative
  std::optional<std::int32_t> top_k;          // not negative
  std::optional<float> top_p;                 // in (0, 1]
  std::optional<float> min_p;                 // in [0, 1]
  std::optional<float> repetition_penalty;    // in [0.01, 100]
  std::optional<std::int32_t> max_new_tokens; // not negative
  std::vector<std::int32_t> eos_token_ids;    // any of them ends a sequence; empty = none
};

/// Parses the text of a generation_config.json; unknown fields are ignored, as they cannot change logits.
/// `do_sample` is among them, as vLLM ignores it.
/// @errors  model_error that names a field of the wrong type or out of its range
generation_config parse_generation_config(std::string_view json, const std::string& name);

/// Reads `folder`/generation_config.json where there is one; the ids that end a sequence fall back to
/// config.json's.
generation_config load_generation_config(const std::filesystem::path& folder, const model_config& config);

} // namespace troupe::model
