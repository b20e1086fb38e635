#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::text {

class template_processes;

/// What a chat template renders. The texts are JSON.
struct chat_request {
  std::string_view messages;         ///< array of OpenAI messages
  bool add_generation_prompt = true; ///< end with the opening of the assistant's turn
  std::string_view tools = {};       ///< array of OpenAI tools; empty or `null`: none
  std::string_view extra = {};  ///< object of further variables (`enable_thinking`, `documents`); empty: none
  std::string_view source = {}; ///< a template that comes with the request; empty: the model's
  std::chrono::milliseconds time_limit{5'000}; ///< for waiting for others' renders, and again for this one
};

/// A model's chat template: Jinja, run by Jinja2 itself in processes of its own, with the environment and the
/// variables that transformers' `apply_chat_template` gives it. Immutable; render may be called from any
/// thread.
class chat_template {
 public:
  /// A template and where it came from, for errors.
  struct located_template {
    std::string source;
    std::string origin;
  };

  /// Reads and compiles a model's templates, and the special tokens that they may use. As transformers, it
  /// takes `chat_template.jinja` and `additional_chat_templates/`, or else the `chat_template` of
  /// `tokenizer_config.json` (one, or a list of named ones), or else that of `chat_template.json`. A model
  /// without a template is fine here.
  /// @param instead  a file that is taken for the model's own templates; empty: none
  /// @throws text_error naming the file and the JSON path or line of what is malformed, or why no process can
  /// be started.
  static chat_template load(std::shared_ptr<template_processes> processes,
                            const std::filesystem::path& model_dir,
                            const std::filesystem::path& instead = {});

  /// One template. @p special_tokens are the variables `bos_token`, `eos_token` and so on.
  /// @throws text_error naming the line when it is not valid.
  chat_template(std::shared_ptr<template_processes> processes, std::string source,
                const std::map<std::string, std::string>& special_tokens = {});

  /// Whether the model has a template at all.
  bool available() const noexcept;

  /// The prompt as text, special tokens written out: tokenize it without adding special tokens.
  /// @throws template_error when the model has no template, the JSON is malformed, the template raises an
  /// error, takes too much memory, ends its process or is not done in time, the conversation is over 16 MiB,
  /// or the prompt over 64 MiB.
  /// @throws text_unavailable when no process is free in time, or none can be started.
  std::string render(const chat_request& request) const;

 private:
  explicit chat_template(std::shared_ptr<template_processes> processes);
  void compile() const;

  /// @param keep  the source is the model's own
  std::string run(const chat_request& request, std::string_view source, std::string_view origin,
                  bool keep) const;

  std::shared_ptr<template_processes> processes_;
  std::map<std::string, located_template> templates_; // by name; a single one is "default"
  std::string variables_ = "{}";                      // JSON object of the special tokens
};

} // namespace troupe::text
