#include "services/gateway/openai/response.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/logprobs.hpp"
#include "services/gateway/openai/logprobs_text.hpp"

namespace troupe::openai {

using nlohmann::ordered_json;

namespace {

std::string render(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// Writes an object member by member.
class object_text {
 public:
  explicit object_text(std::string& out) : out_(out) { out_ += '{'; }

  /// Begins a member; the caller appends its value.
  void name(const char* key) {
    out_ += is_empty_ ? "\"" : ",\"";
    out_ += key;
    out_ += "\":";
    is_empty_ = false;
  }

  void member(const char* key, const ordered_json& value) {
    name(key);
    out_ += render(value);
  }

  void end() { out_ += '}'; }

 private:
  std::string& out_;
  bool is_empty_ = true;
};

} // namespace

/// Builds the parts of a response.
struct response_writer::parts {
  const response_writer& writer;

  const generation_options& options() const { return writer.plan_.options; }

  ordered_json head(const char* completion_object, const char* chat_object) const {
    ordered_json result;
    result["id"] = writer.id_;
    result["object"] = writer.plan_.chat ? chat_object : completion_object;
    result["created"] = writer.created_;
    result["model"] = writer.model_;
    if (!writer.fingerprint_.empty())
      result["system_fingerprint"] = writer.fingerprint_;
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

  /// A chunk of one choice, with the usage of that choice if every chunk reports it.
  /// @param completion_tokens  of the choice so far
  ordered_json chunk_of(const answered_choice& from, ordered_json choice,
                        std::uint64_t completion_tokens) const {
    const token_usage so_far{from.prompt->tokens.size(), completion_tokens};
    return chunk(ordered_json::array({std::move(choice)}), options().continuous_usage ? &so_far : nullptr);
  }

  static ordered_json usage_object(const token_usage& usage) {
    ordered_json result;
    result["prompt_tokens"] = usage.prompt_tokens;
    result["completion_tokens"] = usage.completion_tokens;
    result["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
    if (usage.cached_tokens)
      result["prompt_tokens_details"] = {{"cached_tokens", *usage.cached_tokens}};
    return result;
  }

  logprob_style style() const {
    return {writer.codec_, options().logprobs.value_or(0), options().tokens_as_ids};
  }

  ordered_json logprobs(const std::vector<placed_token>& tokens) const {
    if (!options().logprobs)
      return nullptr;
    return writer.plan_.chat ? chat_logprobs(tokens, style()) : legacy_logprobs(tokens, style());
  }

  static ordered_json cause(const choice& state) {
    if (const auto* token = std::get_if<std::int32_t>(&state.cause()))
      return *token;
    if (const auto* text = std::get_if<std::string>(&state.cause()))
      return *text;
    return nullptr;
  }

  /// The echoed prompt before the choice's own text and tokens.
  choice_delta echo(const answered_choice& from) const {
    choice_delta result;
    if (!options().echo)
      return result;
    result.text = from.prompt->echo;
    if (options().logprobs && from.prompt_logprobs != nullptr)
      result.tokens = place_prompt(from.prompt->tokens, from.prompt->echo_offsets, *from.prompt_logprobs);
    return result;
  }

  void write_prompt_logprobs_of(std::string& out, const answered_choice& from) const {
    if (!options().prompt_logprobs || from.prompt_logprobs == nullptr)
      out += "null";
    else
      write_prompt_logprobs(out, *from.prompt_logprobs, writer.codec_);
  }

  /// Null if not requested, as in vLLM.
  ordered_json token_ids(const std::vector<std::int32_t>& ids) const {
    return options().return_token_ids ? ordered_json(ids) : ordered_json();
  }

  void write_choice(std::string& out, const answered_choice& from) const {
    const choice_delta echoed = echo(from);
    const std::string text = echoed.text + from.gained.text;
    object_text result{out};
    result.member("index", from.index);
    if (writer.plan_.chat)
      result.member("message", {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}});
    else
      result.member("text", text);
    result.name("logprobs");
    if (options().logprobs) {
      logprobs_text all{writer.plan_.chat, style()};
      all.add(echoed.tokens);
      all.add(from.gained.tokens);
      all.write_to(out);
    } else {
      out += "null";
    }
    result.member("finish_reason", from.state->reason());
    result.member("stop_reason", cause(*from.state));
    result.member("token_ids", token_ids(from.gained.token_ids));
    if (!writer.plan_.chat) {
      result.name("prompt_logprobs");
      write_prompt_logprobs_of(out, from);
      result.member("prompt_token_ids", token_ids(from.prompt->tokens));
    }
    result.end();
  }

  /// A choice of a chunk. `first`: of that choice.
  ordered_json part_choice(const answered_choice& from, bool first) const {
    choice_delta echoed;
    if (first && options().echo) {
      echoed = echo(from);
      append(echoed, from.gained);
    }
    const choice_delta& delta = first && options().echo ? echoed : from.gained;
    ordered_json result;
    result["index"] = from.index;
    if (writer.plan_.chat)
      result["delta"]["content"] = delta.text;
    else
      result["text"] = delta.text;
    // The event that opens a silent stream has no token; its lists are empty instead of null.
    result["logprobs"] = delta.tokens.empty() && !first ? ordered_json() : logprobs(delta.tokens);
    result["finish_reason"] = from.state->finished() ? ordered_json(from.state->reason()) : ordered_json();
    result["stop_reason"] = cause(*from.state);
    result["token_ids"] = token_ids(delta.token_ids);
    if (!writer.plan_.chat)
      result["prompt_token_ids"] = first ? token_ids(from.prompt->tokens) : ordered_json();
    return result;
  }
};

response_writer::response_writer(std::string request_id, std::string model, std::string fingerprint,
                                 std::int64_t created, const generation_plan& plan, const text_codec& codec)
    : id_((plan.chat ? "chatcmpl-" : "cmpl-") + std::move(request_id)),
      model_(std::move(model)),
      fingerprint_(std::move(fingerprint)),
      created_(created),
      plan_(plan),
      codec_(codec) {}

void response_writer::begin_body(std::string& body) const {
  const parts build{*this};
  body += render(build.head("text_completion", "chat.completion"));
  body.back() = ','; // the object continues
  body += "\"choices\":[";
}

void response_writer::add_choice(std::string& body, const answered_choice& one, bool first) const {
  if (!first)
    body += ',';
  parts{*this}.write_choice(body, one);
}

void response_writer::end_body(std::string& body, const answered_choice& any,
                               const token_usage& usage) const {
  const parts build{*this};
  std::string rest;
  object_text result{rest};
  result.member("usage", parts::usage_object(usage));
  if (plan_.chat) {
    result.name("prompt_logprobs");
    build.write_prompt_logprobs_of(rest, any);
    result.member("prompt_token_ids", build.token_ids(plan_.prompts.front().tokens));
  }
  result.member("seed", plan_.seed);
  result.end();
  rest.front() = ','; // it ends the object that has begun
  body += ']';
  body += rest;
}

std::string response_writer::role_chunk(const answered_choice& opened) const {
  const parts build{*this};
  ordered_json one;
  one["index"] = opened.index;
  one["delta"] = ordered_json{{"role", "assistant"}, {"content", ""}};
  one["logprobs"] = nullptr;
  one["finish_reason"] = nullptr;
  ordered_json result = build.chunk_of(opened, std::move(one), 0);
  result["prompt_token_ids"] = build.token_ids(opened.prompt->tokens);
  result["seed"] = plan_.seed;
  return render(result);
}

std::string response_writer::token_chunk(const answered_choice& grown, bool first) const {
  const parts build{*this};
  ordered_json result = build.chunk_of(grown, build.part_choice(grown, first), grown.state->num_tokens());
  if (first && !plan_.chat)
    result["seed"] = plan_.seed;
  return render(result);
}

std::string response_writer::usage_chunk(const token_usage& usage) const {
  const parts build{*this};
  return render(build.chunk(ordered_json::array(), &usage));
}

std::string as_event(const std::string& json) {
  // They only occur in strings, where the escape means the same.
  static constexpr std::pair<std::string_view, std::string_view> line_ends[] = {
      {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
  std::string event = "data: ";
  for (std::size_t at = 0; at < json.size();) {
    const std::string_view rest = std::string_view{json}.substr(at);
    const auto* const found = std::find_if(std::begin(line_ends), std::end(line_ends),
                                           [&](const auto& end) { return rest.starts_with(end.first); });
    if (found == std::end(line_ends)) {
      event += json[at++];
    } else {
      event += found->second;
      at += found->first.size();
    }
  }
  event += "\n\n";
  return event;
}

} // namespace troupe::openai
