#include "services/gateway/openai/conversation.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::openai {

namespace {

/// The parts of a content in the form for templates: each has the type `text`.
json text_parts(const json& parts, const std::string& name) {
  json result = json::array();
  for (const json& part : parts) {
    if (!part.is_object())
      throw invalid_request("'" + name + "' must hold objects, not " + kind_of(part), name, "invalid_type");
    const fields in{part, name + "."};
    const std::string type = in.string("type").value_or("text");
    if (type != "text" && type != "refusal")
      throw unsupported("'" + name + "': parts of type '" + type + "' are not supported, only text", name);
    const auto text = in.string(type == "text" ? "text" : "refusal");
    if (!text)
      throw invalid_request("'" + name + "." + type + "' is required", name + "." + type,
                            "missing_required_parameter");
    result.push_back({{"type", "text"}, {"text", *text}});
  }
  return result;
}

bool is_empty(const json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty())
         || (value.is_structured() && value.empty());
}

/// Removes optional members that are null, "" or []: clients write them, but templates test for presence.
void drop_empty_members(json& object, std::initializer_list<std::string_view> required) {
  for (auto member = object.begin(); member != object.end();) {
    const bool kept = std::find(required.begin(), required.end(), member.key()) != required.end();
    member = kept || !is_empty(*member) ? std::next(member) : object.erase(member);
  }
}

/// The object in the text of a call's arguments; empty if the text is no object.
std::optional<json> parse_arguments(const std::string& text) {
  try {
    return parse_body(text);
  } catch (const api_error&) {
    return std::nullopt;
  }
}

/// OpenAI sends the arguments of a call as JSON text, and templates want the object. For text that is none,
/// as models sometimes write, the template gets an empty object and the conversation continues, as with vLLM.
void open_arguments(json& function, const std::string& name, std::vector<std::string>& replaced) {
  json& arguments = function["arguments"];
  if (arguments.is_object())
    return;
  const bool none = is_empty(arguments) && !arguments.is_array();
  auto opened = arguments.is_string() && !none ? parse_arguments(arguments.get<std::string>()) : std::nullopt;
  if (!opened && !none)
    replaced.push_back(name);
  arguments = opened ? std::move(*opened) : json::object();
}

void normalize_calls(json& calls, const std::string& name, std::vector<std::string>& replaced) {
  if (!calls.is_array())
    throw invalid_request("'" + name + "' must be an array, not " + kind_of(calls), name, "invalid_type");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    json& call = calls[i];
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      throw invalid_request("'" + name + "' must hold objects with a 'function'", name, "invalid_value");
    drop_empty_members(call, {"function"});
    drop_empty_members(call["function"], {"arguments"});
    open_arguments(call["function"], name + "[" + std::to_string(i) + "].function.arguments", replaced);
  }
}

void normalize(json& message, const std::string& name, std::vector<std::string>& replaced) {
  if (!message.is_object())
    throw invalid_request("'" + name + "' must be an object, not " + kind_of(message), name, "invalid_type");
  drop_empty_members(message, {"role", "content"});
  const fields in{message, name + "."};
  if (const auto role = in.string("role"); !role || role->empty())
    throw invalid_request("'" + name + ".role' is required", name + ".role", "missing_required_parameter");
  if (const auto content = message.find("content"); content == message.end() || content->is_null()) {
    if (*in.string("role") != "assistant")
      throw invalid_request("'" + name + ".content' is required", name + ".content",
                            "missing_required_parameter");
    message["content"] = ""; // as in messages with tool calls; templates would write `None`, or fail
  } else if (content->is_array()) {
    *content = text_parts(*content, name + ".content");
  } else if (!content->is_string()) {
    throw invalid_request("'" + name + ".content' must be a string or an array of parts, not "
                              + kind_of(*content),
                          name + ".content", "invalid_type");
  }
  if (const auto calls = message.find("tool_calls"); calls != message.end())
    normalize_calls(*calls, name + ".tool_calls", replaced);
}

/// Determines how the prompt ends: with the opening of an answer, or within the last message.
void parse_ending(const fields& body, json& messages, conversation& result) {
  result.continue_final_message = body.boolean("continue_final_message").value_or(false);
  result.add_generation_prompt =
      body.boolean("add_generation_prompt").value_or(!result.continue_final_message);
  if (!result.continue_final_message)
    return;
  if (result.add_generation_prompt)
    throw invalid_request("'continue_final_message' and 'add_generation_prompt' cannot both be true",
                          "continue_final_message", "invalid_value");
  json& last = messages.back()["content"]; // text or parts, after `normalize`
  if (last.is_array() && last.empty())
    last = "";
  json& text = last.is_array() ? last.back()["text"] : last;
  text = text.get<std::string>() + std::string(continuation_mark);
}

/// The variables of templates besides messages and tools.
json template_variables(const fields& body) {
  static constexpr std::string_view efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  json extra = json::object();
  if (const json* more = body.object("chat_template_kwargs"))
    extra = *more;
  if (const json* documents = body.array("documents"); documents != nullptr && !documents->empty())
    extra["documents"] = *documents;
  if (const auto effort = body.string("reasoning_effort")) {
    if (std::find(std::begin(efforts), std::end(efforts), *effort) == std::end(efforts))
      throw invalid_request("'reasoning_effort' must be none, minimal, low, medium, high, xhigh or max, not '"
                                + *effort + "'",
                            "reasoning_effort", "invalid_value");
    extra["reasoning_effort"] = *effort;
  }
  for (const char* name : {"enable_thinking", "thinking"})
    if (const json* value = body.find(name)) {
      static const json disabled = {{"type", "disabled"}}; // Anthropic's and DeepSeek's form
      if (!value->is_boolean() && *value != disabled)
        throw unsupported(std::string("'") + name
                              + "' is supported as true and false, and as {\"type\": \"disabled\"}",
                          name);
      extra[name] = value->is_boolean() && value->get<bool>();
    }
  return extra;
}

/// Bound of a request's own template, which is compiled for this request alone. The largest published ones
/// have some tens of KiB.
constexpr std::size_t max_template_bytes = 1 << 20;

/// The request's own template, which the operator must allow: it is a program that runs here.
std::string parse_chat_template(const fields& body, json& extra, const request_limits& limits) {
  auto sent = body.string("chat_template");
  const char* name = "chat_template";
  if (const auto inner = extra.find(name); inner != extra.end()) { // transformers accepts it there, too
    if (!sent && !inner->is_null()) {
      sent = fields{extra, "chat_template_kwargs."}.string(name);
      name = "chat_template_kwargs.chat_template";
    }
    extra.erase("chat_template");
  }
  if (!sent)
    return {};
  if (!limits.trust_chat_template)
    throw unsupported(std::string("'") + name
                          + "': templates of requests are refused unless the server runs with "
                            "--trust-request-chat-template",
                      name);
  if (sent->empty())
    throw invalid_request(std::string("'") + name + "' must not be empty", name, "invalid_value");
  if (sent->size() > max_template_bytes)
    throw invalid_request(std::string("'") + name + "' may be at most " + std::to_string(max_template_bytes)
                              + " bytes long, got " + std::to_string(sent->size()),
                          name, "invalid_value");
  return *sent;
}

} // namespace

conversation parse_conversation(const fields& body, const request_limits& limits) {
  const json* sent = body.array("messages");
  if (sent == nullptr)
    throw invalid_request("'messages' is required", "messages", "missing_required_parameter");
  if (sent->empty())
    throw invalid_request("'messages' must not be empty", "messages", "invalid_value");
  conversation result;
  json messages = *sent;
  for (std::size_t i = 0; i < messages.size(); ++i)
    normalize(messages[i], "messages[" + std::to_string(i) + "]", result.replaced_arguments);

  parse_ending(body, messages, result);
  result.messages = dump_exactly(messages);
  if (const json* tools = body.array("tools"); tools != nullptr && !tools->empty()) {
    for (const json& tool : *tools)
      if (!tool.is_object())
        throw invalid_request(std::string("'tools' must hold objects, not ") + kind_of(tool), "tools",
                              "invalid_type");
    if (const json* choice = body.find("tool_choice"); choice == nullptr || *choice != "none")
      result.tools = dump_exactly(*tools);
  }
  json extra = template_variables(body);
  result.chat_template = parse_chat_template(body, extra, limits);
  if (!extra.empty())
    result.extra = dump_exactly(extra);
  return result;
}

} // namespace troupe::openai
