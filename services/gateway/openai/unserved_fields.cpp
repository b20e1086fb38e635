#include "services/gateway/openai/unserved_fields.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::openai {

namespace {

constexpr unserved_field unserved[] = {
    // The shape of the answer.
    {"guided_json", "guided decoding"},
    {"guided_regex", "guided decoding"},
    {"guided_choice", "guided decoding"},
    {"guided_grammar", "guided decoding"},
    {"structured_outputs", "structured outputs"},
    {"structural_tag", "structured outputs"},
    {"json_schema", "guided decoding"},
    {"json_object", "guided decoding"},
    {"regex", "guided decoding"},
    {"grammar", "guided decoding"},
    {"ebnf", "guided decoding"},
    {"stop_regex", "stopping at a regular expression"},
    {"no_stop_trim", "keeping stop strings by this name ('include_stop_str_in_output' does)"},
    // Sampling.
    {"logits_processors", "custom logits processors"},
    {"custom_logit_processor", "custom logits processors"},
    {"custom_params", "custom logits processors"},
    {"vllm_xargs", "arguments of extensions"},
    {"length_penalty", "beam search", "1 0"},
    {"early_stopping", "beam search"},
    {"no_repeat_ngram_size", "a ban on repeated n-grams", "0"},
    {"repetition_detection", "the detection of repetition"},
    {"repeat_penalty", "a penalty by this name ('repetition_penalty' is served)", "1", "repetition_penalty"},
    {"min_new_tokens", "a minimum by this name ('min_tokens' is served)", "0", "min_tokens"},
    {"max_new_tokens", "a maximum by this name ('max_tokens' is served)", "-1", "max_tokens"},
    {"n_predict", "a maximum by this name ('max_tokens' is served)", "-1", "max_tokens"},
    {"typical_p", "locally typical sampling", "1 0"},
    {"mirostat", "mirostat sampling", "0"},
    {"mirostat_mode", "mirostat sampling", "0"},
    {"samplers", "an order of samplers"},
    {"sampler_priority", "an order of samplers"},
    {"temperature_last", "an order of samplers"},
    {"dynatemp_range", "dynamic temperature", "0"},
    {"dynamic_temperature", "dynamic temperature"},
    {"smoothing_factor", "smooth sampling", "0"},
    {"xtc_probability", "exclusion of top choices", "0"},
    {"dry_multiplier", "the DRY penalty", "0"},
    {"top_a", "top-a sampling", "0"},
    {"top_n_sigma", "top-n-sigma sampling", "-1 0"},
    {"tfs", "tail-free sampling", "1"},
    {"tfs_z", "tail-free sampling", "1"},
    {"epsilon_cutoff", "epsilon sampling", "0"},
    {"eta_cutoff", "eta sampling", "0"},
    {"penalty_alpha", "contrastive search", "0"},
    {"guidance_scale", "classifier-free guidance", "1"},
    {"negative_prompt", "classifier-free guidance"},
    {"watermarking", "watermarks"},
    {"trace_decode_token_ids", "a forced answer"},
    // Contents of the answer.
    {"logprob_token_ids", "logprobs of chosen tokens"},
    {"prompt_logprob_token_ids", "logprobs of chosen tokens"},
    {"return_hidden_states", "hidden states"},
    {"return_prompt_text", "the prompt's text in answers"},
    // Reasoning is part of the text here.
    {"thinking_token_budget", "a budget for reasoning", "-1"},
    {"thinking_budget", "a budget for reasoning", "-1"},
    {"include_reasoning", "leaving reasoning out of the answer", "true"},
    {"separate_reasoning", "reasoning apart from the answer"},
    {"reasoning_format", "reasoning apart from the answer", "\"none\" \"raw\""},
    {"reasoning", "an object of reasoning options ('reasoning_effort' is served)",
     R"({"enabled":false} {"exclude":false} {"effort":null})"},
    {"verbosity", "a choice of verbosity", "\"medium\""},
    // Other models, other media, the network.
    {"prompt_embeds", "prompt embeddings"},
    {"input_embeds", "prompt embeddings"},
    {"lora_path", "adapters"},
    {"lora_request", "adapters"},
    {"audio", "audio"},
    {"web_search_options", "web search"},
    {"mm_processor_kwargs", "images and audio"},
    {"session_params", "sessions"},
    {"kv_transfer_params", "the transfer of KV caches"},
    {"ec_transfer_params", "the transfer of encoder caches"},
};

bool asks_for_nothing(const json& value, std::string_view neutral) {
  if (value == false || (value.is_structured() && value.empty())
      || (value.is_string() && value.get_ref<const std::string&>().empty()))
    return true;
  while (!neutral.empty()) {
    const std::size_t end = std::min(neutral.find(' '), neutral.size());
    if (value == json::parse(neutral.substr(0, end)))
      return true;
    neutral.remove_prefix(std::min(end + 1, neutral.size()));
  }
  return false;
}

void refuse(const fields& body, const unserved_field& field) {
  const json* value = body.find(field.name);
  const json* twin = field.served == nullptr ? nullptr : body.find(field.served);
  if (value != nullptr && !asks_for_nothing(*value, field.neutral) && (twin == nullptr || *twin != *value))
    throw unsupported(std::string("'") + field.name + "' asks for " + field.feature
                          + ", and that is not supported: leave it out",
                      field.name);
}

} // namespace

std::span<const unserved_field> unserved_fields() {
  return unserved;
}

void refuse_unserved(const fields& body) {
  for (const unserved_field& field : unserved)
    refuse(body, field);
  if (body.boolean("use_beam_search").value_or(false))
    throw unsupported("'use_beam_search': beam search is not supported", "use_beam_search");
  if (!body.boolean("spaces_between_special_tokens").value_or(true)
      && !body.boolean("skip_special_tokens").value_or(true))
    throw unsupported(
        "'spaces_between_special_tokens': false is not supported with 'skip_special_tokens' false",
        "spaces_between_special_tokens");
  if (const json* format = body.object("response_format"); format != nullptr && !format->empty()) {
    const fields inner{*format, "response_format."};
    const auto type = inner.string("type").value_or("");
    if (type.empty())
      throw invalid_request("'response_format.type' is required", "response_format.type");
    if (type != "text")
      throw unsupported("'response_format': only the type 'text' is supported, not '" + type + "'",
                        "response_format");
  }
}

void refuse_unserved_in_chat(const fields& body) {
  for (const auto& [name, neutral] : {std::pair{"functions", ""}, {"function_call", R"("none" "auto")"}})
    if (const json* value = body.find(name); value != nullptr && !asks_for_nothing(*value, neutral))
      throw unsupported(std::string("'") + name + "' is not supported; use 'tools'", name);
  if (const json* choice = body.find("tool_choice")) {
    const bool named = choice->is_object();
    if (!named && !choice->is_string())
      throw invalid_request(std::string("'tool_choice' must be a string or an object, not ")
                                + kind_of(*choice),
                            "tool_choice", "invalid_type");
    if (named || (*choice != "auto" && *choice != "none"))
      throw unsupported("'tool_choice' is supported as 'auto' and 'none'", "tool_choice");
  }
  body.array("tools");
  body.boolean("parallel_tool_calls"); // no tool calls, so nothing to limit
  if (const json* modalities = body.array("modalities"))
    for (const json& modality : *modalities)
      if (modality != "text")
        throw unsupported("'modalities': only text is supported", "modalities");
  if (body.boolean("echo").value_or(false))
    throw unsupported("'echo' is not supported for chats", "echo");
}

} // namespace troupe::openai
