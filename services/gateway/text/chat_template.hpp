// Renders a chat conversation to a prompt with the model's chat template.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::text {

class template_processes;

/// Input of one rendering. The texts are JSON.
struct chat_request {
  /// Array of OpenAI messages. A content is a string or a list of text parts. A template that does not take
  /// the form that was sent gets the other one, with texts joined by line feeds. A template that does not
  /// know the role `developer` gets `system`.
  std::string_view messages;
  bool add_generation_prompt = true; ///< end with the opening of the assistant's turn
  std::string_view tools = {};       ///< array of OpenAI tools; empty or `null`: none
  std::string_view extra = {};  ///< object of further variables (`enable_thinking`, `documents`); empty: none
  std::string_view source = {}; ///< the request's own template; empty: the model's
  std::chrono::milliseconds time_limit{5'000}; ///< longest wait for a process; again for the rendering
};

/// A model's chat template. Jinja2 itself renders it, in separate processes, with the environment and
/// variables of transformers' `apply_chat_template`. Immutable; any thread may call render.
class chat_template {
 public:
  /// A template and its place, for errors.
  struct located_template {
    std::string source;
    std::string origin;
  };

  /// Reads and compiles a model's templates and their special tokens. The first of these that exists counts,
  /// as with transformers: `chat_template.jinja` with `additional_chat_templates/`, the `chat_template` of
  /// `tokenizer_config.json` (one, or a list of named ones), that of `chat_template.json`. A model may have
  /// none.
  /// @param instead  file that replaces the model's own templates; empty: none
  /// @throws text_error naming the file and the JSON path or line of the fault, or why no process starts
  static chat_template load(std::shared_ptr<template_processes> processes,
                            const std::filesystem::path& model_dir,
                            const std::filesystem::path& instead = {});

  /// One template. `special_tokens` are the variables `bos_token`, `eos_token` and so on.
  /// @throws text_error naming the line of a fault
  chat_template(std::shared_ptr<template_processes> processes, std::string source,
                const std::map<std::string, std::string>& special_tokens = {});

  /// Parts of a conversation that the templates drop (system messages, tools, all text), a line each. Found
  /// by rendering probes.
  std::vector<std::string> losses() const;

  /// Whether the model has a template.
  bool available() const noexcept;

  /// The prompt as text, with special tokens written out: tokenize it without adding special tokens.
  /// @throws template_error  the model has no template, the JSON is malformed, the template raises an error,
  /// takes too much memory or time, or ends its process, the conversation is over 16 MiB, or the prompt over
  /// 64 MiB
  /// @throws text_unavailable  no process is free in time, or none can be started
  std::string render(const chat_request& request) const;

 private:
  explicit chat_template(std::shared_ptr<template_processes> processes);
  void compile() const;

  /// @param keep  the source is the model's own: the process caches it
  std::string run(const chat_request& request, std::string_view source, std::string_view origin,
                  bool keep) const;

  std::shared_ptr<template_processes> processes_;
  std::map<std::string, located_template> templates_; // by name; a single one is "default"
  std::string variables_ = "{}";                      // JSON object of the special tokens
};

} // namespace troupe::text
