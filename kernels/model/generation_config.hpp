#pragma once

#include "kernels/model/config.hpp"

namespace troupe::model {

/// What a model's authors recommend for sampling; a request's own parameters win over every field.
struct generation_config {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int32_t> bos_token_id;
  std::vector<std::int32_t> eos_token_ids; // any of them ends a sequence; empty = none
};

/// Parses the text of a generation_config.json; unknown fields are ignored, as they cannot change logits.
/// @errors  model_error that names a field of the wrong type or out of its range
generation_config parse_generation_config(std::string_view json, const std::string& name);

/// Reads `folder`/generation_config.json where there is one; eos and bos fall back to config.json's.
generation_config load_generation_config(const std::filesystem::path& folder, const model_config& config);

} // namespace troupe::model
