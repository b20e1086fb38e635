#include "services/gateway/openai/conversation.hpp"

#include "services/gateway/openai/api_error.hpp"

namespace troupe::openai {

namespace {

/// Text parts joined by line feeds, as vLLM joins them for templates that take strings.
std::string join_parts(const json& parts, const std::string& name) {
  std::string result;
  bool first = true;
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
    if (!first)
      result += '\n';
    result += *text;
    first = false;
  }
  return result;
}

/// OpenAI sends the arguments of a call as JSON text, and templates want the object.
void open_arguments(json& calls, const std::string& name) {
  if (!calls.is_array())
    throw invalid_request("'" + name + "' must be an array, not " + kind_of(calls), name, "invalid_type");
  for (json& call : calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      throw invalid_request("'" + name + "' must hold objects with a 'function'", name, "invalid_value");
    json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string())
      continue;
    const auto text = arguments->get<std::string>();
    try {
      *arguments = text.empty() ? json::object() : parse_body(text);
    } catch (const api_error& e) {
      throw invalid_request("'" + name + ".function.arguments' must hold a JSON object: " + e.what(),
                            name + ".function.arguments", "invalid_value");
    }
  }
}

void normalize(json& message, const std::string& name) {
  if (!message.is_object())
    throw invalid_request("'" + name + "' must be an object, not " + kind_of(message), name, "invalid_type");
  const fields in{message, name + "."};
  if (const auto role = in.string("role"); !role || role->empty())
    throw invalid_request("'" + name + ".role' is required", name + ".role", "missing_required_parameter");
  if (const auto content = message.find("content"); content == message.end() || content->is_null()) {
    if (*in.string("role") != "assistant")
      throw invalid_request("'" + name + ".content' is required", name + ".content",
                            "missing_required_parameter");
    message["content"] = ""; // what comes with calls of tools; templates write `None`, or fail
  } else if (content->is_array()) {
    *content = join_parts(*content, name + ".content");
  } else if (!content->is_string()) {
    throw invalid_request("'" + name + ".content' must be a string or an array of parts, not "
                              + kind_of(*content),
                          name + ".content", "invalid_type");
  }
  if (const auto calls = message.find("tool_calls"); calls != message.end() && !calls->is_null())
    open_arguments(*calls, name + ".tool_calls");
}

} // namespace

conversation parse_conversation(const fields& body) {
  for (const char* name : {"chat_template", "continue_final_message"})
    if (const json* value = body.find(name); value != nullptr && *value != false)
      throw unsupported(std::string("'") + name + "' is not supported", name);
  const json* sent = body.array("messages");
  if (sent == nullptr)
    throw invalid_request("'messages' is required", "messages", "missing_required_parameter");
  if (sent->empty())
    throw invalid_request("'messages' must not be empty", "messages", "invalid_value");
  json messages = *sent;
  for (size_t i = 0; i < messages.size(); ++i)
    normalize(messages[i], "messages[" + std::to_string(i) + "]");

  conversation result;
  result.messages = messages.dump();
  result.add_generation_prompt = body.boolean("add_generation_prompt").value_or(true);
  if (const json* tools = body.array("tools"); tools != nullptr && !tools->empty()) {
    for (const json& tool : *tools)
      if (!tool.is_object())
        throw invalid_request(std::string("'tools' must hold objects, not ") + kind_of(tool), "tools",
                              "invalid_type");
    if (const json* choice = body.find("tool_choice"); choice == nullptr || *choice != "none")
      result.tools = tools->dump();
  }
  json extra = json::object();
  if (const json* more = body.object("chat_template_kwargs"))
    extra = *more;
  if (const json* documents = body.array("documents"))
    extra["documents"] = *documents;
  if (!extra.empty())
    result.extra = extra.dump();
  return result;
}

} // namespace troupe::openai
