#include "services/gateway/openai/response.hpp"

#include <utility>

#include "services/gateway/openai/logprobs.hpp"

namespace troupe::openai {

using nlohmann::ordered_json;

/// How the parts of a response are built.
struct response_writer::parts {
  const response_writer& writer;

  const generation_options& options() const { return writer.plan_.options; }

  std::string render(const ordered_json& value) const {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

  ordered_json head(const char* completion_object, const char* chat_object) const {
    ordered_json result;
    result["id"] = writer.id_;
    result["object"] = writer.plan_.chat ? chat_object : completion_object;
    result["created"] = writer.created_;
    result["model"] = writer.model_;
    return result;
  }

  ordered_json chunk(ordered_json choices, const token_usage* usage) const {
    ordered_json result = head("text_completion", "chat.completion.chunk");
    result["choices"] = std::move(choices);
    if (usage != nullptr)
      result["usage"] = usage_object(*usage);
    else if (options().include_usage)
      result["usage"] = nullptr;
    return result;
  }

  const token_usage* running(const token_usage& usage) const {
    return options().continuous_usage ? &usage : nullptr;
  }

  static ordered_json usage_object(const token_usage& usage) {
    ordered_json result;
    result["prompt_tokens"] = usage.prompt_tokens;
    result["completion_tokens"] = usage.completion_tokens;
    result["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
    return result;
  }

  ordered_json logprobs(const std::vector<placed_token>& tokens) const {
    if (!options().logprobs)
      return nullptr;
    const logprob_style style{writer.codec_, *options().logprobs, options().tokens_as_ids};
    return writer.plan_.chat ? chat_logprobs(tokens, style) : legacy_logprobs(tokens, style);
  }

  static ordered_json cause(const choice& state) {
    if (const auto* token = std::get_if<int32_t>(&state.cause()))
      return *token;
    if (const auto* text = std::get_if<std::string>(&state.cause()))
      return *text;
    return nullptr;
  }

  /// What an echoed prompt puts before the choice's own text and tokens.
  choice_delta echo(const finished_choice& from) const {
    choice_delta result;
    if (!options().echo)
      return result;
    result.text = from.prompt->echo;
    if (options().logprobs && from.prompt_logprobs != nullptr)
      result.tokens = place_prompt(from.prompt->tokens, *from.prompt_logprobs, writer.codec_,
                                   options().skip_special_tokens);
    return result;
  }

  ordered_json prompt_logprobs_of(const finished_choice& from) const {
    if (!options().prompt_logprobs || from.prompt_logprobs == nullptr)
      return nullptr;
    return prompt_logprobs(*from.prompt_logprobs, writer.codec_);
  }

  ordered_json whole_choice(const finished_choice& from) const {
    choice_delta all = echo(from);
    append(all, from.gained);
    ordered_json result;
    result["index"] = from.index;
    if (writer.plan_.chat)
      result["message"] = ordered_json{{"role", "assistant"}, {"content", all.text}, {"refusal", nullptr}};
    else
      result["text"] = all.text;
    result["logprobs"] = logprobs(all.tokens);
    result["finish_reason"] = from.state->reason();
    result["stop_reason"] = cause(*from.state);
    if (!writer.plan_.chat && options().prompt_logprobs)
      result["prompt_logprobs"] = prompt_logprobs_of(from);
    if (options().return_token_ids) {
      result["token_ids"] = from.gained.token_ids;
      if (!writer.plan_.chat)
        result["prompt_token_ids"] = from.prompt->tokens;
    }
    return result;
  }

  /// One choice of a chunk. `role`: the first of a chat.
  ordered_json part_choice(uint32_t index, const choice_delta& delta, bool role) const {
    ordered_json result;
    result["index"] = index;
    if (writer.plan_.chat) {
      ordered_json message = ordered_json::object();
      if (role)
        message["role"] = "assistant";
      message["content"] = delta.text;
      result["delta"] = std::move(message);
    } else {
      result["text"] = delta.text;
    }
    result["logprobs"] = delta.tokens.empty() ? ordered_json() : logprobs(delta.tokens);
    result["finish_reason"] = nullptr;
    if (options().return_token_ids && !role)
      result["token_ids"] = delta.token_ids;
    return result;
  }
};

response_writer::response_writer(std::string request_id, std::string model, int64_t created,
                                 const generation_plan& plan, const text_codec& codec)
    : id_((plan.chat ? "chatcmpl-" : "cmpl-") + std::move(request_id)),
      model_(std::move(model)),
      created_(created),
      plan_(plan),
      codec_(codec) {}

std::string response_writer::body(const std::vector<finished_choice>& choices,
                                  const token_usage& usage) const {
  const parts build{*this};
  ordered_json list = ordered_json::array();
  for (const finished_choice& one : choices)
    list.push_back(build.whole_choice(one));
  ordered_json result = build.head("text_completion", "chat.completion");
  result["choices"] = std::move(list);
  result["usage"] = parts::usage_object(usage);
  if (plan_.chat && plan_.options.prompt_logprobs)
    result["prompt_logprobs"] = build.prompt_logprobs_of(choices.front());
  if (plan_.chat && plan_.options.return_token_ids)
    result["prompt_token_ids"] = plan_.prompts.front().tokens;
  result["seed"] = plan_.seed;
  return build.render(result);
}

std::string response_writer::first_chunk(const finished_choice& opened, const token_usage& usage) const {
  const generation_options& options = plan_.options;
  if (!plan_.chat && !options.echo && !options.return_token_ids)
    return {};
  const parts build{*this};
  ordered_json one = build.part_choice(opened.index, build.echo(opened), plan_.chat);
  if (options.return_token_ids && !plan_.chat)
    one["prompt_token_ids"] = opened.prompt->tokens;
  ordered_json result = build.chunk(ordered_json::array({std::move(one)}), build.running(usage));
  if (options.return_token_ids && plan_.chat)
    result["prompt_token_ids"] = opened.prompt->tokens;
  result["seed"] = plan_.seed;
  return build.render(result);
}

std::string response_writer::delta_chunk(uint32_t index, const choice_delta& delta,
                                         const token_usage& usage) const {
  const parts build{*this};
  return build.render(
      build.chunk(ordered_json::array({build.part_choice(index, delta, false)}), build.running(usage)));
}

std::string response_writer::finish_chunk(uint32_t index, const choice& state,
                                          const token_usage& usage) const {
  const parts build{*this};
  ordered_json one;
  one["index"] = index;
  if (plan_.chat)
    one["delta"] = ordered_json::object();
  else
    one["text"] = "";
  one["logprobs"] = nullptr;
  one["finish_reason"] = state.reason();
  one["stop_reason"] = parts::cause(state);
  return build.render(build.chunk(ordered_json::array({std::move(one)}), build.running(usage)));
}

std::string response_writer::usage_chunk(const token_usage& usage) const {
  const parts build{*this};
  return build.render(build.chunk(ordered_json::array(), &usage));
}

std::string as_event(const std::string& json) {
  return "data: " + json + "\n\n";
}

} // namespace troupe::openai
