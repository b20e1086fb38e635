// Configurations of published models of the newer families (the facts, not the files): each is accepted, or
// refused for the one reason that is true of it, and its program has the sizes that its authors tell.
#include "kernels/model/config.hpp"
#include "kernels/model/kv_layers.hpp"
#include "kernels/model/parameters.hpp"
#include "kernels/model/required_tensors.hpp"
#include "tests/unit/model/config_text.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::model {
namespace {

using json = nlohmann::json;
using test::parse;
using test::refusal;
using test::with;
using testing::HasSubstr;
using testing::IsEmpty;

json repeated(std::size_t count, const json& value) {
  return std::vector<json>(count, value);
}

const json deepseek_v3 = json::parse(R"(
  {"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu",
  "hidden_size": 7168, "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
  "max_position_embeddings": 163840, "model_type": "deepseek_v3", "moe_intermediate_size": 2048,
  "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
  "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
  "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3",
  "quant_method": "fp8", "weight_block_size": [128, 128]}, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
  "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
  "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4,
  "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": true, "v_head_dim": 128,
  "vocab_size": 129280})");

const json deepseek_v2 = json::parse(R"(
  {"architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "aux_loss_alpha": 0.001, "bos_token_id": 100000, "eos_token_id": 100001, "ep_size": 1,
  "first_k_dense_replace": 1, "hidden_act": "silu", "initializer_range": 0.02, "kv_lora_rank": 512,
  "max_position_embeddings": 163840, "model_type": "deepseek_v2", "moe_layer_freq": 1,
  "n_shared_experts": 2, "norm_topk_prob": false, "num_experts_per_tok": 6, "pretraining_tp": 1,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
  "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000,
  "scoring_func": "softmax", "seq_aux": true, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_cache": true, "v_head_dim": 128, "vocab_size": 102400, "hidden_size": 5120,
  "intermediate_size": 12288, "moe_intermediate_size": 1536, "n_group": 8, "n_routed_experts": 160,
  "num_attention_heads": 128, "num_hidden_layers": 60, "num_key_value_heads": 128, "q_lora_rank": 1536,
  "routed_scaling_factor": 16.0, "topk_group": 3, "topk_method": "group_limited_greedy"})");

const json deepseek_v2_lite = with(deepseek_v2, json::parse(R"(
  {"hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_group": 1,
  "n_routed_experts": 64, "num_attention_heads": 16, "num_hidden_layers": 27, "num_key_value_heads": 16,
  "q_lora_rank": null, "routed_scaling_factor": 1.0, "topk_group": 1, "topk_method": "greedy"})"));

const json kimi_k2 = with(deepseek_v3, json::parse(R"(
  {"aux_loss_alpha": 0.001, "bos_token_id": 163584, "eos_token_id": 163585, "first_k_dense_replace": 1,
  "max_position_embeddings": 131072, "model_type": "kimi_k2", "n_group": 1, "n_routed_experts": 384,
  "num_attention_heads": 64, "num_key_value_heads": 64, "num_nextn_predict_layers": 0,
  "pretraining_tp": 1, "rope_theta": 50000.0, "routed_scaling_factor": 2.827,
  "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0,
  "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}, "seq_aux": true,
  "topk_group": 1, "vocab_size": 163840})"));

const json moonlight = with(deepseek_v3, json::parse(R"(
  {"aux_loss_alpha": 0.001, "bos_token_id": 163584, "eos_token_id": 163586, "first_k_dense_replace": 1,
  "hidden_size": 2048, "intermediate_size": 11264, "max_position_embeddings": 8192,
  "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2,
  "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
  "num_nextn_predict_layers": 0, "pretraining_tp": 1, "q_lora_rank": null, "rms_norm_eps": 1e-05,
  "rope_theta": 50000.0, "routed_scaling_factor": 2.446, "seq_aux": true, "topk_group": 1,
  "vocab_size": 163840, "quantization_config": null, "rope_scaling": null})"));

const json glm_355b = json::parse(R"(
  {"architectures": ["Glm4MoeForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "pad_token_id": 151329, "eos_token_id": [151329, 151336, 151338], "head_dim": 128, "hidden_act": "silu",
  "partial_rotary_factor": 0.5, "initializer_range": 0.02, "max_position_embeddings": 131072,
  "model_type": "glm4_moe", "norm_topk_prob": true, "num_attention_heads": 96, "n_group": 1,
  "topk_group": 1, "n_shared_experts": 1, "num_experts_per_tok": 8, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000, "num_nextn_predict_layers": 1,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 151552,
  "hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536, "n_routed_experts": 160,
  "routed_scaling_factor": 2.5, "first_k_dense_replace": 3, "num_hidden_layers": 92, "use_qk_norm": true})");

const json glm_106b = with(glm_355b, json::parse(R"(
  {"hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
  "n_routed_experts": 128, "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
  "num_hidden_layers": 46, "use_qk_norm": false})"));

const json glm_30b = json::parse(R"(
  {"architectures": ["Glm4MoeLiteForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "pad_token_id": 154820, "eos_token_id": [154820, 154827, 154829], "hidden_act": "silu",
  "hidden_size": 2048, "intermediate_size": 10240, "max_position_embeddings": 202752,
  "model_type": "glm4_moe_lite", "moe_intermediate_size": 1536, "topk_method": "noaux_tc",
  "norm_topk_prob": true, "num_attention_heads": 20, "n_group": 1, "topk_group": 1,
  "n_routed_experts": 64, "n_shared_experts": 1, "routed_scaling_factor": 1.8, "num_experts_per_tok": 4,
  "first_k_dense_replace": 1, "num_hidden_layers": 47, "num_key_value_heads": 20,
  "num_nextn_predict_layers": 1, "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "rope_theta": 1000000, "tie_word_embeddings": false, "dtype": "bfloat16",
  "q_lora_rank": 768, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
  "v_head_dim": 256, "vocab_size": 154880})");

const json dots_llm1 = json::parse(R"(
  {"architectures": ["Dots1ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "eos_token_id": 151649, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 10944, "max_position_embeddings": 32768,
  "max_window_layers": 62, "model_type": "dots1", "moe_intermediate_size": 1408, "moe_layer_freq": 1,
  "n_group": null, "n_routed_experts": 128, "n_shared_experts": 2, "norm_topk_prob": true,
  "num_attention_heads": 32, "num_experts_per_tok": 6, "num_hidden_layers": 62, "num_key_value_heads": 32,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000000,
  "routed_scaling_factor": 2.5, "scoring_func": "noaux_tc", "sliding_window": null,
  "tie_word_embeddings": false, "topk_group": null, "torch_dtype": "bfloat16", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 152064})");

const json minimax_m2 = with(json::parse(R"(
  {"architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "num_hidden_layers": 62,
  "hidden_size": 3072, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
  "intermediate_size": 1536, "vocab_size": 200064, "num_experts_per_tok": 8, "num_local_experts": 256,
  "max_position_embeddings": 196608, "rope_theta": 5000000, "rotary_dim": 64, "hidden_act": "silu",
  "rms_norm_eps": 1e-06, "use_cache": true, "tie_word_embeddings": false, "use_qk_norm": true,
  "qk_norm_type": "per_layer", "use_routing_bias": true, "use_mtp": true, "mtp_transformer_layers": 1,
  "num_mtp_modules": 3, "shared_intermediate_size": 0, "scoring_func": "sigmoid",
  "quantization_config": {"quant_method": "fp8", "fmt": "float8_e4m3fn", "activation_scheme": "dynamic",
  "weight_block_size": [128, 128], "modules_to_not_convert": ["gate", "e_score_correction_bias",
  "lm_head"]}, "torch_dtype": "bfloat16"})"),
                             {{"attn_type_list", repeated(62, 1)}});

const json ernie_21b = json::parse(R"(
  {"architectures": ["Ernie4_5_MoeForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 2560, "intermediate_size": 12288,
  "max_position_embeddings": 131072, "model_type": "ernie4_5_moe", "num_attention_heads": 20,
  "num_key_value_heads": 4, "num_hidden_layers": 28, "pad_token_id": 0, "rms_norm_eps": 1e-05,
  "use_cache": false, "vocab_size": 103424, "rope_theta": 500000, "use_bias": false,
  "torch_dtype": "bfloat16", "moe_num_experts": 64, "moe_num_shared_experts": 2,
  "moe_layer_start_index": 1, "moe_layer_end_index": 27, "moe_intermediate_size": 1536,
  "moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_k": 6, "moe_layer_interval": 1,
  "moe_use_aux_free": true, "num_nextn_predict_layers": 1, "tie_word_embeddings": true})");

const json hunyuan_a13b = with(json::parse(R"(
  {"add_classification_head": false, "anyres_pooling_size": 2, "anyres_vit_max_image_size": null,
  "anyres_vit_two_views": false, "architectures": ["HunYuanMoEV1ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.1, "attention_head_dim": 128, "bos_token_id": 1, "cla_share_factor": 2,
  "class_num": 0, "dense_list": [4096, 0], "eod_token_id": 127967, "eos_token_id": 127960,
  "group_limited_greedy": false, "hidden_act": "silu", "hidden_size": 4096, "im_end_id": 6,
  "im_newline_id": 12, "im_start_id": 5, "image_token_id": 9, "initializer_range": 0.02,
  "intermediate_size": 3072, "kv_lora_rank": null, "mask_init_id": 13, "max_position_embeddings": 32768,
  "mlp_bias": false, "model_type": "hunyuan_v1_moe", "moe_drop_tokens": false, "moe_layer_num_skipped": 0,
  "moe_random_routing_dropped_token": false, "n_group": null, "norm_topk_prob": true, "norm_type": "rms",
  "num_attention_heads": 32, "num_experts": 64, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "num_media_embeds": 257, "org_vocab_size": 128167, "pad_id": 127961, "pad_token_id": 127961,
  "pool_type": "last", "position_embedding_xdrope": false, "pretraining_tp": 1, "q_lora_rank": null,
  "qk_nope_head_dim": null, "qk_rope_head_dim": null, "rms_norm_eps": 1e-05,
  "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
  "mscale_all_dim": 1.0, "type": "dynamic"}, "rope_theta": 10000.0, "routed_scaling_factor": null,
  "sep_token_id": 127962, "skip_cls_token": false, "text_end_id": 8, "text_start_id": 7,
  "tie_word_embeddings": true, "topk_group": null, "torch_dtype": "bfloat16", "use_cache": true,
  "use_cla": false, "use_mixed_mlp_moe": true, "use_mla": false, "use_qk_norm": true,
  "use_rotary_pos_emb": true, "v_head_dim": null, "vocab_size": 128167})"),
                               {{"moe_intermediate_size", repeated(32, 3072)},
                                {"moe_topk", repeated(32, 8)},
                                {"num_shared_expert", repeated(32, 1)}});

const json granite_3b = json::parse(R"(
  {"architectures": ["GraniteMoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "attention_multiplier": 0.015625, "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0,
  "hidden_act": "silu", "hidden_size": 1536, "initializer_range": 0.02, "intermediate_size": 512,
  "logits_scaling": 6.0, "max_position_embeddings": 131072, "model_type": "granitemoe",
  "num_attention_heads": 24, "num_experts_per_tok": 8, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "num_local_experts": 40, "output_router_logits": false, "pad_token_id": 0, "residual_multiplier": 0.22,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 10000000.0, "router_aux_loss_coef": 0.0,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 49155})");

const json gpt_oss = json::parse(R"(
  {"architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
  "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
  "intermediate_size": 2880, "max_position_embeddings": 131072, "model_type": "gpt_oss",
  "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8,
  "num_local_experts": 32, "output_router_logits": false, "pad_token_id": 199999,
  "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn",
  "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
  "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
  "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false}, "rope_theta": 150000,
  "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false,
  "use_cache": true, "vocab_size": 201088})");

const json phi_3_5_moe_fields = json::parse(R"(
  {"architectures": ["PhiMoEForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "bos_token_id": 1, "eos_token_id": 32000, "hidden_act": "silu", "hidden_dropout": 0.0,
  "hidden_size": 4096, "initializer_range": 0.02, "input_jitter_noise": 0.01, "intermediate_size": 6400,
  "lm_head_bias": true, "max_position_embeddings": 131072, "model_type": "phimoe",
  "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "num_local_experts": 16, "original_max_position_embeddings": 4096, "output_router_logits": false,
  "rms_norm_eps": 1e-05, "rope_scaling": {"long_mscale": 1.243163121016122,
  "original_max_position_embeddings": 4096, "short_mscale": 1.243163121016122, "type": "longrope"},
  "rope_theta": 10000.0, "router_aux_loss_coef": 0.0, "router_jitter_noise": 0.01,
  "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
  "vocab_size": 32064})");

const json llama_4_scout = json::parse(R"(
  {"architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4",
  "text_config": {"attention_bias": false, "attention_chunk_size": 8192, "attention_dropout": 0.0,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "interleave_moe_layer_step": 1,
  "intermediate_size": 8192, "intermediate_size_mlp": 16384, "max_position_embeddings": 10485760,
  "model_type": "llama4_text", "num_attention_heads": 40, "num_experts_per_tok": 1,
  "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 16,
  "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 16.0,
  "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
  "rope_type": "llama3"}, "rope_theta": 500000.0, "router_aux_loss_coef": 0.001,
  "torch_dtype": "bfloat16", "use_cache": true, "use_qk_norm": true, "vocab_size": 202048,
  "bos_token_id": 200000, "eos_token_id": [200001, 200007, 200008], "pad_token_id": 200018,
  "for_llm_compressor": false, "initializer_range": 0.02, "no_rope_layers": [],
  "router_jitter_noise": 0.0, "tie_word_embeddings": false}, "torch_dtype": "bfloat16",
  "boi_token_index": 200080, "eoi_token_index": 200081, "image_token_index": 200092,
  "tie_word_embeddings": false})");

// The published factors: only their number has a meaning here.
const json phi_3_5_moe = [] {
  auto config = phi_3_5_moe_fields;
  config["rope_scaling"]["short_factor"] = repeated(64, 1.0);
  config["rope_scaling"]["long_factor"] = repeated(64, 2.0);
  return config;
}();

json gpt_oss_of(std::size_t layers, std::size_t experts) {
  json types = json::array();
  for (std::size_t i = 0; i < layers; ++i)
    types.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  return with(gpt_oss,
              {{"num_hidden_layers", layers}, {"num_local_experts", experts}, {"layer_types", types}});
}

json llama_4_with(const json& more) {
  auto config = llama_4_scout;
  config["text_config"].update(more);
  return config;
}

struct published_family {
  const char* name;
  json config;
  std::size_t layers;
  std::size_t dense_layers;
  double billions;        ///< of parameters, as the authors tell
  double active_billions; ///< per token
  int left_out;           ///< how many of the matrices [vocabulary, hidden] they do not count as active
  std::size_t kv_bytes;   ///< of a token, in BF16
  std::size_t context;
  std::vector<std::int32_t> end_tokens;
};

void PrintTo(const published_family& p, std::ostream* out) {
  *out << p.name;
}

class published_families : public testing::TestWithParam<published_family> {};

TEST_P(published_families, have_the_sizes_that_their_authors_tell) {
  const auto& model = GetParam();
  auto original = model.config;
  original.erase("quantization_config");
  if (!model.config.value("quantization_config", json()).is_null())
    EXPECT_THAT(refusal(model.config),
                HasSubstr("config.json: field 'quantization_config' is not supported"));
  const auto config = parse(original);
  EXPECT_THAT(config.ignored, IsEmpty());
  EXPECT_EQ(config.eos_token_ids, model.end_tokens);
  EXPECT_EQ(config.max_context, model.context);
  EXPECT_EQ(config.num_layers(), model.layers);
  std::size_t dense_layers = 0;
  for (const auto& layer : config.layers)
    dense_layers += layer.moe() == nullptr ? 1 : 0;
  EXPECT_EQ(dense_layers, model.dense_layers);
  const auto counts = count_parameters(config);
  EXPECT_NEAR(static_cast<double>(counts.all) / 1e9, model.billions, 0.01 * model.billions);
  const auto left_out =
      static_cast<double>(model.left_out) * static_cast<double>(config.vocab_size * config.hidden);
  EXPECT_NEAR((static_cast<double>(counts.active) - left_out) / 1e9, model.active_billions,
              0.03 * model.active_billions);
  EXPECT_EQ(kv_layers(config, kernels::dtype::bf16, 16).bytes_per_token(), model.kv_bytes);
}

// KV bytes of latent attention: layers · (512 + 64) · 2; else 2 · layers · KV heads · head size · 2.
INSTANTIATE_TEST_SUITE_P(
    model, published_families,
    testing::Values(
        published_family{
            "deepseek-ai/DeepSeek-V3 and R1", deepseek_v3, 61, 3, 671, 37, 1, 70272, 163840, {1}},
        published_family{"deepseek-ai/DeepSeek-V2", deepseek_v2, 60, 1, 236, 21, 1, 69120, 163840, {100001}},
        published_family{
            "deepseek-ai/DeepSeek-V2-Lite", deepseek_v2_lite, 27, 1, 15.7, 2.4, 1, 31104, 163840, {100001}},
        published_family{"moonshotai/Kimi-K2-Instruct", kimi_k2, 61, 1, 1030, 32, 1, 70272, 131072, {163585}},
        published_family{
            "moonshotai/Moonlight-16B-A3B", moonlight, 27, 1, 16, 2.24, 2, 31104, 8192, {163586}},
        published_family{
            "zai-org/GLM-4.5", glm_355b, 92, 3, 355, 32, 2, 376832, 131072, {151329, 151336, 151338}},
        published_family{"zai-org/GLM-4.6",
                         with(glm_355b, {{"max_position_embeddings", 202752}}),
                         92,
                         3,
                         355,
                         32,
                         2,
                         376832,
                         202752,
                         {151329, 151336, 151338}},
        published_family{
            "zai-org/GLM-4.5-Air", glm_106b, 46, 1, 106, 12, 2, 188416, 131072, {151329, 151336, 151338}},
        published_family{
            "zai-org/GLM-4.7-Flash", glm_30b, 47, 1, 30, 3.9, 0, 54144, 202752, {154820, 154827, 154829}},
        published_family{"rednote-hilab/dots.llm1", dots_llm1, 62, 1, 142, 14, 0, 1015808, 32768, {151649}},
        published_family{"MiniMaxAI/MiniMax-M2 and M2.5", minimax_m2, 62, 0, 230, 10, 2, 253952, 196608, {}},
        published_family{"baidu/ERNIE-4.5-21B-A3B", ernie_21b, 28, 1, 21.8, 3, 1, 57344, 131072, {2}},
        published_family{"tencent/Hunyuan-A13B", hunyuan_a13b, 32, 0, 80, 13, 0, 131072, 32768, {127960}},
        published_family{
            "ibm-granite/granite-3.1-3b-a800m", granite_3b, 32, 0, 3.3, 0.8, 1, 65536, 131072, {0}},
        published_family{
            "openai/gpt-oss-20b", gpt_oss_of(24, 32), 24, 0, 20.9, 3.6, 1, 49152, 131072, {200002}},
        published_family{
            "openai/gpt-oss-120b", gpt_oss_of(36, 128), 36, 0, 117, 5.1, 1, 73728, 131072, {200002}},
        published_family{"microsoft/Phi-3.5-MoE", phi_3_5_moe, 32, 0, 41.9, 6.6, 0, 131072, 131072, {32000}},
        // Of 109 and 402 billion, those of pictures are not counted.
        published_family{"meta-llama/Llama-4-Scout-17B-16E",
                         llama_4_scout,
                         48,
                         0,
                         107.8,
                         17,
                         0,
                         196608,
                         10485760,
                         {200001, 200007, 200008}},
        published_family{"meta-llama/Llama-4-Maverick-17B-128E",
                         llama_4_with({{"interleave_moe_layer_step", 2},
                                       {"max_position_embeddings", 1048576},
                                       {"num_local_experts", 128},
                                       {"rope_scaling", nullptr},
                                       {"use_qk_norm", false}}),
                         48,
                         24,
                         400,
                         17,
                         0,
                         196608,
                         1048576,
                         {200001, 200007, 200008}}));

TEST(published_families_that_leave_a_field_out, have_its_default) {
  auto config = hunyuan_a13b;
  config.erase("use_qk_norm");
  const auto tensors = dense_tensors(parse(config));
  EXPECT_TRUE(std::ranges::any_of(tensors, [](const auto& tensor) {
    return tensor.name == "model.layers.0.self_attn.query_layernorm.weight";
  }));
}

TEST(published_families_that_are_refused, say_what_is_missing) {
  const std::pair<const char*, const char*> cases[] = {
      {"DeepseekV32ForCausalLM", "its sparse attention (the indexer) is not implemented"},
      {"GraniteMoeHybridForCausalLM", "its Mamba layers are not implemented"},
      {"Llama4ForCausalLM", "only the whole Llama 4 (Llama4ForConditionalGeneration) is read"},
      {"Qwen3_5MoeForConditionalGeneration",
       "its gated delta net, a state beside the KV cache, is not implemented"},
      {"KimiK25ForConditionalGeneration",
       "its vision side and its nested language model are not implemented"},
      {"Qwen3NextForCausalLM", "its gated delta net, a state beside the KV cache, is not implemented"}};
  for (const auto& [architecture, why] : cases)
    EXPECT_THAT(refusal({{"architectures", {architecture}}}),
                HasSubstr(std::string{"names '"} + architecture + "', which is not supported: " + why));
}

} // namespace
} // namespace troupe::model
