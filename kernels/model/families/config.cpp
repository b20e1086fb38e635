#include "kernels/model/config.hpp"

#include "kernels/model/families/family.hpp"
#include "kernels/model/families/fields.hpp"
#include "kernels/model/json_object.hpp"
#include "kernels/model/text_file.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

namespace troupe::model {

namespace {

constexpr std::size_t max_config_bytes = std::size_t{16} << 20;
constexpr std::int64_t max_vocab = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t max_hidden = 1 << 20;
constexpr std::int64_t max_layers = 1 << 12;
constexpr std::size_t max_routed_experts = 1 << 18;

// Fields of transformers without effect on the forward pass: bookkeeping, training, and generation defaults
// of older writers. Most configs have some, so they are not logged.
constexpr const char* harmless[] = {
    "_attn_implementation",
    "_commit_hash",
    "_name_or_path",
    "attention_dropout",
    "attn_implementation",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_cache",
};

/// The checkpoint's declared dtype. The used type is chosen when its tensors are loaded; this gives one clear
/// error about the config instead of one per tensor.
void check_dtype(const json_object& json) {
  const auto* key = json.has("dtype") ? "dtype" : "torch_dtype";
  auto name = json.value<std::string>(key, "");
  json.ignore("torch_dtype");
  constexpr std::string_view module = "torch.";
  if (name.starts_with(module))
    name.erase(0, module.size());
  constexpr std::string_view known[] = {"", "float32", "float", "float16", "half", "bfloat16"};
  if (std::ranges::find(known, name) == std::end(known))
    json.fail(key, "is '" + name + "', which is not supported (supported: float32, float16, bfloat16)");
}

/// Refuses fields that transformers reads for every architecture, and that are not implemented here.
void refuse_what_is_not_computed(const json_object& json) {
  if (json.says_something("quantization_config"))
    json.fail("quantization_config",
              "is not supported: take the checkpoint that this one was quantized from (--expert-quant and "
              "--dense-quant quantize it)");
  if (json.value("is_encoder_decoder", false))
    json.fail("is_encoder_decoder", "is not supported");
  if (json.says_something("per_layer_config"))
    json.fail("per_layer_config", "is not supported");
}

/// Ids outside the vocabulary have no effect: they never occur.
void read_tokens(const json_object& json, model_config& config) {
  for (const auto id : json.one_or_many("eos_token_id"))
    if (id >= 0 && id < static_cast<std::int64_t>(config.vocab_size))
      config.eos_token_ids.push_back(static_cast<std::int32_t>(id));
    else
      config.ignored.push_back("eos_token_id " + std::to_string(id) + " (not in the vocabulary)");
}

/// The first supported one of "architectures"; without the field, transformers uses model_type.
const family& read_family(const json_object& json) {
  const auto names = json.value<std::vector<std::string>>("architectures", {});
  if (names.empty())
    return family_of_type(json);
  for (const auto& name : names)
    if (const auto* found = find_family(name))
      return *found;
  const auto why = why_not(names.front());
  json.fail("architectures",
            "names '" + names.front() + "', which is not supported"
                + (why.empty() ? " (supported: " + supported_architectures() + ")" : ": " + why));
}

/// Every routed expert has three tensors that are checked by name; this bounds the memory of that list for
/// any config. Ten times more than the largest published models have.
void check_size(const json_object& json, const model_config& config) {
  std::size_t num_experts = 0;
  for (const auto& layer : config.layers)
    num_experts += layer.moe() == nullptr ? 0 : layer.moe()->num_experts;
  if (num_experts > max_routed_experts)
    json.fail("num_hidden_layers", "makes " + std::to_string(num_experts) + " routed experts, at most "
                                       + std::to_string(max_routed_experts) + " are supported");
}

} // namespace

namespace {

/// Reads what all families have in common, and builds the program.
void read_model(const json_object& json, const family& family, model_config& config) {
  config.vocab_size = positive(json, "vocab_size", max_vocab);
  config.hidden = positive(json, key_of(json, "hidden_size", "n_embd"), max_hidden);
  config.max_context = positive(json, key_of(json, "max_position_embeddings", "n_positions"), 1'000'000'000);
  config.tie_word_embeddings = json.value("tie_word_embeddings", false);
  check_dtype(json);
  refuse_what_is_not_computed(json);
  if (const auto act = json.value<std::string>("hidden_act", "silu"); act != "silu" && act != "swish")
    json.fail("hidden_act", "is '" + act + "', which is not supported (supported: silu)");
  read_tokens(json, config);
  config.embeddings = {"model.embed_tokens.weight", {config.vocab_size, config.hidden}};
  config.lm_head = {"lm_head.weight", {config.vocab_size, config.hidden}};
  config.final_norm.weight = {"model.norm.weight", {config.hidden}};
  family.build(json, positive(json, key_of(json, "num_hidden_layers", "n_layer"), max_layers), config);
  check_size(json, config);
  for (const auto* key : harmless)
    json.ignore(key);
  for (auto& field : json.unread())
    config.ignored.push_back(std::move(field));
}

} // namespace

model_config parse_config(std::string_view text, const std::string& name) {
  const auto json = json_object::parse(text, name, max_config_bytes);
  model_config config;
  const auto& family = read_family(json);
  config.architecture = family.architecture;
  if (!family.is_nested) {
    read_model(json, family, config);
  } else {
    const auto language = json.object("text_config");
    if (!language)
      json.fail("text_config", "is missing");
    // Outside are the fields of other parts, and some of these again.
    check_dtype(json);
    refuse_what_is_not_computed(json);
    read_model(*language, family, config);
  }
  config.canonical_json = json.canonical();
  return config;
}

model_config load_config(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  return parse_config(read_text_file(path, max_config_bytes), path.string());
}

} // namespace troupe::model
