#pragma once

#include "kernels/model/config.hpp"

namespace troupe::model {

/// What a model's authors recommend for sampling; a request's own parameters win over every field. Whatever
/// fits here may stand in for a parameter that a request leaves out.
struct generation_config {
  std::optional<float> temperature;           // finite, not negative
  std::optional<std::int32_t> top_k;          // not negative; 0: all
  std::optional<float> top_p;                 // in (0, 1]
  std::optional<float> min_p;                 // in [0, 1]
  std::optional<float> repetition_penalty;    // in [0.01, 100]
  std::optional<std::int32_t> max_new_tokens; // not negative
  std::vector<std::int32_t> eos_token_ids;    // any of them ends a sequence; empty = none
  std::vector<std::string> ignored;           // what stands in the file and has no effect here
};

/// Parses the text of a generation_config.json. Nothing in it can change logits, so only a file that is no
/// JSON object, or ids that are no integers, make a model unfit. A value that no request may have is as if it
/// were not there, and on the list `ignored`, as is a field that would change what transformers generates and
/// that is not read here. `do_sample` is not looked at, as in vLLM.
/// @param vocab_size  ids outside it end nothing, since they never come
/// @errors  model_error
generation_config parse_generation_config(std::string_view json, const std::string& name,
                                          std::size_t vocab_size);

/// Reads `folder`/generation_config.json where there is one. The ids that end a sequence are its own and
/// config.json's, together.
generation_config load_generation_config(const std::filesystem::path& folder, const model_config& config);

} // namespace troupe::model
