// A model's generation_config.json: recommended sampling parameters.
#pragma once

#include "kernels/model/config.hpp"

namespace troupe::model {

/// A request's own parameters win over every field. Any value here is valid for a parameter that a request
/// leaves out.
struct generation_config {
  std::optional<float> temperature;           // finite, not negative
  std::optional<std::int32_t> top_k;          // not negative; 0: all
  std::optional<float> top_p;                 // in (0, 1]
  std::optional<float> min_p;                 // in [0, 1]
  std::optional<float> repetition_penalty;    // in [0.01, 100]
  std::optional<std::int32_t> max_new_tokens; // not negative
  std::vector<std::int32_t> eos_token_ids;    // any of them ends a sequence; empty = none
  std::vector<std::string> ignored;           // fields of the file without effect here
};

/// Parses the text of a generation_config.json. Nothing in it can change logits, so only a file that is no
/// JSON object, or ids that are no integers, are errors. A value that is invalid in requests is ignored and
/// listed in `ignored`; so is a field that would change what transformers generates and is not supported.
/// `do_sample` is ignored, as in vLLM.
/// @param vocab_size  ids outside it have no effect: they never occur
/// @throws model_error
generation_config parse_generation_config(std::string_view json, const std::string& name,
                                          std::size_t vocab_size);

/// Reads `folder`/generation_config.json if it exists. The ids that end a sequence are those of this file and
/// of config.json.
generation_config load_generation_config(const std::filesystem::path& folder, const model_config& config);

} // namespace troupe::model
