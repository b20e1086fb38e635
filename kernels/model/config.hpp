#pragma once

#include "kernels/activation.hpp"
#include "kernels/model/error.hpp"
#include "kernels/rope.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::model {

// A model as data. A new architecture is a function from config.json to `model_config` (architectures.cpp); a
// new *kind* of arithmetic is a new enumerator or variant alternative here, and one case in the layer graph.

/// How a norm is computed. LayerNorm (GPT-MoE, NLLB) will be a second kind.
enum class norm_kind : std::uint8_t {
  rms, // x / sqrt(mean(x²) + epsilon) · weight
};

struct norm_spec {
  norm_kind kind = norm_kind::rms;
  float epsilon = 0.0F;
};

/// How positions enter. Learned positions (GPT-MoE) will be a second kind.
enum class position_kind : std::uint8_t {
  rotary, // RoPE on queries and keys
};

/// Where queries and keys are normalized before RoPE.
enum class qk_norm_kind : std::uint8_t {
  none,
  per_head,   // one weight [head_dim] for every head (Qwen3)
  projection, // one weight over all heads (OLMoE)
};

/// Grouped-query attention. Multi-head latent attention will be a second alternative beside this struct.
struct attention_spec {
  std::size_t num_heads = 0;
  std::size_t num_kv_heads = 0;
  std::size_t head_dim = 0;
  bool qkv_bias = false;
  bool output_bias = false;
  qk_norm_kind qk_norm = qk_norm_kind::none;
  float qk_norm_epsilon = 0.0F;
  std::size_t window = 0; // tokens a query sees, itself included; 0 = all
};

/// A feed-forward block every token goes through.
struct dense_mlp_spec {
  std::size_t intermediate = 0;
};

/// An expert that every token visits beside its top-k (computed where attention is).
struct shared_expert_spec {
  std::size_t intermediate = 0;
  bool sigmoid_gate = false; // output · sigmoid(gate(x)), gate [1, hidden]
};

/// A routed feed-forward block; number and shape of the experts may differ from layer to layer.
struct moe_spec {
  std::size_t num_experts = 0;
  std::size_t num_topk = 0;
  std::size_t intermediate = 0;
  bool normalize_topk = false; // divide the k softmax weights by their sum
  std::optional<shared_expert_spec> shared;
};

struct layer_spec {
  norm_spec attention_norm;
  attention_spec attention;
  norm_spec mlp_norm;
  std::variant<dense_mlp_spec, moe_spec> mlp;

  /// The routed block, or null where the layer is dense.
  const moe_spec* moe() const noexcept { return std::get_if<moe_spec>(&mlp); }
};

/// How an architecture names its tensors below "model.layers.N."; everything else is common to all four.
struct tensor_naming {
  std::string moe;         // "block_sparse_moe" or "mlp"
  std::string expert_gate; // "w1" or "gate_proj"
  std::string expert_up;   // "w3" or "up_proj"
  std::string expert_down; // "w2" or "down_proj"
};

struct model_config {
  std::string architecture; // e.g. "MixtralForCausalLM"
  std::size_t vocab_size = 0;
  std::size_t hidden = 0;
  std::size_t max_context = 0; // tokens; max_position_embeddings, stretched where RoPE scaling does
  position_kind positions = position_kind::rotary;
  kernels::rope_config rope;                                  // the same for every layer
  kernels::activation activation = kernels::activation::silu; // down(act(gate(x)) · up(x))
  norm_spec final_norm;
  bool tie_word_embeddings = false;
  tensor_naming naming;
  std::vector<layer_spec> layers;
  std::vector<std::int32_t> eos_token_ids; // those of config.json that are in the vocabulary
  std::vector<std::string> ignored;        // fields that mean something to somebody, but to nobody here
  std::string canonical_json; // config.json with sorted keys and no blanks; part of the fingerprint

  std::size_t num_layers() const noexcept { return layers.size(); }
};

/// Parses and validates the text of a config.json. A field that transformers' code for the architecture reads
/// is understood, or refused where its value asks for what is not computed here; a field that it does not
/// read is put on the list `ignored`, unless it is bookkeeping that every config has or says nothing (null,
/// false, 0, empty).
///
/// @param json  the file's text, at most 16 MiB
/// @param name  how to call the file in messages
/// @errors  model_error that names the field: not JSON, a missing or ill-typed field, an architecture or
///          value that would change the arithmetic and is not supported
model_config parse_config(std::string_view json, const std::string& name);

/// Reads `folder`/config.json. @errors as parse_config, and model_error when the file cannot be read
model_config load_config(const std::filesystem::path& folder);

} // namespace troupe::model
