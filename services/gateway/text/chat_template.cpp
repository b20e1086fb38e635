#include "services/gateway/text/chat_template.hpp"

#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/model_files.hpp"
#include "services/gateway/text/template_processes.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/tokenizer_config.hpp"

#include <nlohmann/json.hpp>

#include <sstream>
#include <stdexcept>
#include <utility>

namespace troupe::text {

namespace {

constexpr std::size_t longest_conversation = 16UL << 20U;

using templates = std::map<std::string, chat_template::located_template>;

/// Reads the `chat_template` of a JSON file, one template or a list of named ones, with its place.
void read_member(const json_view& file, templates& out) {
  if (!file.has("chat_template"))
    return;
  const auto member = file.at("chat_template");
  const auto place = [](const json_view& view) { return view.file() + ": " + view.path(); };
  if (member.value().is_string()) {
    out.insert({"default", {member.string(), place(member)}});
    return;
  }
  for (std::size_t i = 0; i < member.array_size(); ++i) {
    const auto named = member.item(i);
    const auto source = named.at("template");
    if (!out.insert({named.at("name").string(), {source.string(), place(source)}}).second)
      named.fail("template '" + named.at("name").string() + "' is there twice");
  }
}

/// Reads the templates in files of their own.
void read_files(const std::filesystem::path& model_dir, templates& out) {
  const auto add = [&](const std::string& name, const std::filesystem::path& file) {
    if (auto text = read_text_file(file))
      out.insert({name, {std::move(*text), file.string()}});
  };
  add("default", model_dir / "chat_template.jinja");
  std::error_code none; // the folder is optional
  for (const auto& entry : std::filesystem::directory_iterator(model_dir / "additional_chat_templates", none))
    if (entry.path().extension() == ".jinja")
      add(entry.path().stem().string(), entry.path());
}

bool has_entries(std::string_view json) {
  const auto first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json.substr(first).starts_with("null"))
    return false;
  const auto second = json.find_first_not_of(" \t\r\n", first + 1);
  return second != std::string_view::npos && json[second] != ']';
}

[[noreturn]] void fail_template(std::string_view origin, const std::string& what) {
  throw text_error(std::string(origin) + ": the chat template is not valid: " + what);
}

} // namespace

chat_template::chat_template(std::shared_ptr<template_processes> processes)
    : processes_(std::move(processes)) {}

chat_template::chat_template(std::shared_ptr<template_processes> processes, std::string source,
                             const std::map<std::string, std::string>& tokens)
    : processes_(std::move(processes)),
      templates_{{"default", {std::move(source), "chat template"}}},
      variables_(nlohmann::json(tokens).dump()) {
  compile();
}

chat_template chat_template::load(std::shared_ptr<template_processes> processes,
                                  const std::filesystem::path& model_dir,
                                  const std::filesystem::path& instead) {
  chat_template out(std::move(processes));
  const auto config = tokenizer_config::load(model_dir);
  out.variables_ = config.special_tokens().dump();
  if (!instead.empty()) {
    auto text = read_text_file(instead);
    if (!text)
      throw text_error(instead.string() + ": no such file");
    out.templates_.insert({"default", {std::move(*text), instead.string()}});
  } else {
    read_files(model_dir, out.templates_);
  }
  if (out.templates_.empty())
    read_member(config.file(), out.templates_);
  const auto older_file = model_dir / "chat_template.json"; // where processors used to keep it
  if (const auto text = out.templates_.empty() ? read_text_file(older_file) : std::nullopt) {
    const auto json = parse_json(*text, older_file.string());
    read_member({json, older_file.string()}, out.templates_);
  }
  out.compile();
  return out;
}

void chat_template::compile() const {
  constexpr std::chrono::seconds time_limit{10};
  for (const auto* name : {"default", "tool_use"}) { // the only ones that are rendered
    if (const auto found = templates_.find(name); found != templates_.end()) {
      const auto& [source, origin] = found->second;
      try {
        const auto answer = processes_->ask(
            {.task = "check", .keep = "1", .source = source, .variables = variables_}, time_limit);
        if (answer.kind != "valid")
          fail_template(origin, answer.text);
      } catch (const template_error& e) { // it hung or killed its process
        fail_template(origin, e.what());
      } catch (const text_unavailable& e) {
        throw text_error(e.what());
      }
    }
  }
}

std::vector<std::string> chat_template::losses() const {
  constexpr std::chrono::seconds time_limit{5};
  std::vector<std::string> out;
  for (const auto* name : {"default", "tool_use"}) {
    const auto found = templates_.find(name);
    if (found == templates_.end())
      continue;
    const auto& [source, origin] = found->second;
    try {
      std::istringstream lines(
          processes_
              ->ask({.task = "probe", .keep = "1", .source = source, .variables = variables_}, time_limit)
              .text);
      for (std::string line; std::getline(lines, line);)
        out.push_back(origin + ": the chat template: " + line);
    } catch (const std::runtime_error& e) { // too slow, or too much memory
      out.push_back(origin + ": the chat template cannot be tried: " + e.what());
    }
  }
  return out;
}

bool chat_template::available() const noexcept {
  return !templates_.empty();
}

std::string chat_template::render(const chat_request& request) const {
  if (!request.source.empty()) {
    try {
      return run(request, request.source, "the request's template", false);
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
  if (has_entries(request.tools))
    chosen = templates_.find("tool_use");
  if (chosen == templates_.end())
    chosen = templates_.find("default");
  if (chosen == templates_.end())
    throw template_error("the model has several chat templates and none is called 'default'");
  return run(request, chosen->second.source, chosen->second.origin, true);
}

std::string chat_template::run(const chat_request& request, std::string_view source, std::string_view origin,
                               bool keep) const {
  if (request.messages.size() + request.tools.size() + request.extra.size() + request.source.size()
      > longest_conversation)
    throw template_error("the conversation is over 16 MiB");
  auto answer = processes_->ask({.task = "render",
                                 .keep = keep ? "1" : "0",
                                 .source = source,
                                 .messages = request.messages,
                                 .tools = request.tools.empty() ? "null" : request.tools,
                                 .variables = variables_,
                                 .extra = request.extra,
                                 .add_generation_prompt = request.add_generation_prompt ? "1" : "0"},
                                request.time_limit);
  if (answer.kind == "template")
    fail_template(origin, answer.text);
  if (answer.kind == "request")
    throw template_error(answer.text);
  return std::move(answer.text);
}

} // namespace troupe::text
