#include "services/gateway/text/chat_template.hpp"

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/model_files.hpp"
#include "services/gateway/text/python_interpreter.hpp"
#include "services/gateway/text/text_error.hpp"

#include <nlohmann/json.hpp>

#include <utility>

namespace troupe::text {

namespace {

constexpr std::size_t longest_conversation = 16UL << 20U;

/// The special tokens that templates may use, as transformers passes them: `bos_token` and so on as text.
nlohmann::json special_tokens(const json_view& config) {
  auto out = nlohmann::json::object();
  for (const auto& [name, value] : config.value().items()) {
    if (name.ends_with("_token") && (value.is_string() || value.is_object())) {
      const auto token = config.at(name);
      out[name] = value.is_object() ? token.at("content").string() : token.string();
    }
  }
  if (config.has("additional_special_tokens")) {
    const auto list = config.at("additional_special_tokens");
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      const auto token = list.item(i);
      out["additional_special_tokens"].push_back(token.value().is_object() ? token.at("content").string()
                                                                           : token.string());
    }
  }
  return out;
}

std::map<std::string, std::string> configured_templates(const json_view& config) {
  std::map<std::string, std::string> out;
  if (!config.has("chat_template")) {
    return out;
  }
  const auto member = config.at("chat_template");
  if (member.value().is_string()) {
    out.emplace("default", member.string());
    return out;
  }
  for (std::size_t i = 0; i < member.array_size(); ++i) {
    const auto named = member.item(i);
    if (!out.emplace(named.at("name").string(), named.at("template").string()).second) {
      named.fail("template '" + named.at("name").string() + "' is there twice");
    }
  }
  return out;
}

bool has_entries(std::string_view json) {
  const auto first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json.substr(first).starts_with("null")) {
    return false;
  }
  const auto second = json.find_first_not_of(" \t\r\n", first + 1);
  return second != std::string_view::npos && json[second] != ']';
}

} // namespace

chat_template::chat_template(std::string source, const std::map<std::string, std::string>& tokens)
    : templates_{{"default", std::move(source)}},
      variables_(nlohmann::json(tokens).dump()),
      origin_("chat template") {}

chat_template chat_template::load(const std::filesystem::path& model_dir) {
  chat_template out;
  const auto config_file = model_dir / "tokenizer_config.json";
  if (const auto text = read_text_file(config_file)) {
    const auto json = parse_json(*text, config_file.string());
    const json_view config(json, config_file.string());
    config.expect_object();
    out.variables_ = special_tokens(config).dump();
    out.templates_ = configured_templates(config);
    out.origin_ = config_file.string();
  }
  const auto template_file = model_dir / "chat_template.jinja";
  if (auto text = read_text_file(template_file)) {
    out.templates_.insert_or_assign("default", std::move(*text));
    out.origin_ = template_file.string();
  }
  const auto others = model_dir / "additional_chat_templates";
  std::error_code none; // the folder is optional
  for (const auto& entry : std::filesystem::directory_iterator(others, none)) {
    if (entry.path().extension() == ".jinja") {
      if (auto text = read_text_file(entry.path())) {
        out.templates_.insert_or_assign(entry.path().stem().string(), std::move(*text));
      }
    }
  }
  return out;
}

bool chat_template::available() const noexcept {
  return !templates_.empty();
}

std::string chat_template::render(const chat_request& request) const {
  if (!request.source.empty()) {
    python_interpreter::instance(); // whether it starts is not the client's business
    try {
      return run(request, request.source, "the request's template");
    } catch (const text_error& e) { // not valid Jinja
      throw template_error(e.what());
    }
  }
  if (!available()) {
    throw template_error(
        "the model has no chat template; use /v1/completions, or put a chat_template.jinja into the model "
        "folder");
  }
  auto chosen = templates_.end();
  if (has_entries(request.tools)) {
    chosen = templates_.find("tool_use");
  }
  if (chosen == templates_.end()) {
    chosen = templates_.find("default");
  }
  if (chosen == templates_.end()) {
    throw template_error("the model has several chat templates and none is called 'default'");
  }
  return run(request, chosen->second, origin_);
}

std::string chat_template::run(const chat_request& request, std::string_view source,
                               std::string_view origin) const {
  if (request.messages.size() + request.tools.size() + request.extra.size() + request.source.size()
      > longest_conversation) {
    throw template_error("the conversation is over 16 MiB");
  }
  return python_interpreter::instance().render({.source = source,
                                                .messages = request.messages,
                                                .tools = request.tools.empty() ? "null" : request.tools,
                                                .variables = variables_,
                                                .extra = request.extra,
                                                .add_generation_prompt = request.add_generation_prompt,
                                                .time_limit = request.time_limit},
                                               origin);
}

} // namespace troupe::text
