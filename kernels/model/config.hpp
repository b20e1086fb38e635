// A model's configuration: config.json, parsed and validated.
#pragma once

#include "kernels/model/error.hpp"
#include "kernels/model/program/operations.hpp"
#include "kernels/rope.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::model {

/// A model as a program: a list of operations per layer, with the tensors that they need. A builder per
/// family makes it from config.json (families/). Everything else follows from it: required tensors, load
/// order, KV bytes per token, packed extents, shapes for calibration.
struct model_config {
  std::string architecture; // e.g. "MixtralForCausalLM"
  std::size_t vocab_size = 0;
  std::size_t hidden = 0;
  std::size_t max_context = 0;   // tokens; max_position_embeddings, extended by RoPE scaling
  kernels::rope_config rope;     // the same for every layer; rotary_dim 0: nothing is rotated
  tensor_requirement embeddings; // [vocab, hidden]
  float embedding_scale = 1.0F;
  std::optional<tensor_requirement> position_embeddings{}; // [max_context, hidden]: added to the embeddings
  std::vector<layer_program> layers;
  norm_op final_norm;
  tensor_requirement lm_head;                     // [vocab, hidden]; unused if tied
  std::optional<tensor_requirement> lm_head_bias; // [vocab]
  bool tie_word_embeddings = false;
  float logits_divisor = 1.0F;
  std::vector<std::int32_t> eos_token_ids; // those of config.json that are in the vocabulary
  std::vector<std::string>
      ignored_tensors; // beginnings of names of tensors that are not needed, and not logged
  /// RoPE for contexts up to `original_max_positions`, where it is another one (longrope's short factors).
  std::optional<kernels::rope_config> short_rope;
  std::vector<std::string> ignored; // fields with a meaning elsewhere, but none here
  std::string canonical_json;       // config.json with sorted keys and no blanks; part of the fingerprint

  std::size_t num_layers() const noexcept { return layers.size(); }

  /// The rotation for contexts of up to `positions` tokens. One for all sequences of a model: a key's bits
  /// depend on its token and position alone.
  const kernels::rope_config& rope_for(std::size_t positions) const noexcept {
    return short_rope && static_cast<double>(positions) <= rope.original_max_positions ? *short_rope : rope;
  }

  /// The matrix of the logits.
  matrix_ref output_head() const {
    matrix_ref head{.parts = {tie_word_embeddings ? embeddings : lm_head}};
    if (lm_head_bias)
      head.biases = {*lm_head_bias};
    return head;
  }
};

/// Parses and validates the text of a config.json. Fields that transformers reads for the architecture are
/// understood, or refused if their value needs something that is not implemented. Other fields go to the list
/// `ignored`, except bookkeeping that every config has, and empty values (null, false, 0, empty).
///
/// @param json  the file's text, at most 16 MiB
/// @param name  name of the file in messages
/// @throws model_error naming the field: not JSON, a missing or ill-typed field, an unsupported architecture,
/// or a value that would change the arithmetic and is not supported
model_config parse_config(std::string_view json, const std::string& name);

/// Reads `folder`/config.json.
/// @throws as parse_config, and model_error if the file cannot be read
model_config load_config(const std::filesystem::path& folder);

} // namespace troupe::model
