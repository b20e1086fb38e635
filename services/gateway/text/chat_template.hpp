#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace troupe::text {

/// What a chat template renders. The texts are JSON.
struct chat_request {
  std::string_view messages;         ///< array of OpenAI messages
  bool add_generation_prompt = true; ///< end with the opening of the assistant's turn
  std::string_view tools = {};       ///< array of OpenAI tools; empty or `null`: none
  std::string_view extra = {};  ///< object of further variables (`enable_thinking`, `documents`); empty: none
  std::string_view source = {}; ///< a template that comes with the request; empty: the model's
  std::chrono::milliseconds time_limit{10'000}; ///< for waiting for others' renders, and again for this one
};

/// A model's chat template: Jinja, run by Jinja2 itself in an embedded Python, with the environment and the
/// variables that transformers' `apply_chat_template` gives it. The interpreter starts with the first render.
/// Immutable; render may be called from any thread (renders run one at a time).
class chat_template {
 public:
  /// Reads `chat_template.jinja` or the `chat_template` of `tokenizer_config.json` (one, or a list of named
  /// ones), and the special tokens that templates may use. A model without a template is fine here.
  /// @throws text_error naming the file and JSON path of what is malformed.
  static chat_template load(const std::filesystem::path& model_dir);

  /// One template. @p special_tokens are the variables `bos_token`, `eos_token` and so on.
  explicit chat_template(std::string source, const std::map<std::string, std::string>& special_tokens = {});

  /// Whether the model has a template at all.
  bool available() const noexcept;

  /// The prompt as text, special tokens written out: tokenize it without adding special tokens.
  /// @throws template_error when the model has no template, the JSON is malformed, the template raises an
  /// error, the conversation is over 16 MiB, the prompt over 64 MiB, or rendering takes more than ten
  /// seconds.
  /// @throws text_error when the template itself is not valid Jinja or the interpreter cannot start.
  std::string render(const chat_request& request) const;

 private:
  chat_template() = default;

  std::string run(const chat_request& request, std::string_view source, std::string_view origin) const;

  std::map<std::string, std::string> templates_; // by name; a single one is "default"
  std::string variables_ = "{}";                 // JSON object of the special tokens
  std::string origin_;                           // the file it came from, for errors
};

} // namespace troupe::text
