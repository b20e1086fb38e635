#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace troupe::text {

/// The process's one embedded Python, and Jinja2 in it. Started with the first use and never shut down, since
/// the interpreter cannot be taken down cleanly under threads. Isolated from the environment, the user's
/// packages, the working directory and signal handling. Thread-safe; renders run one at a time.
class python_interpreter {
 public:
  /// @throws text_error when the interpreter or Jinja2 cannot be started; the next call says the same.
  static python_interpreter& instance();

  struct render_arguments {
    std::string_view source;
    std::string_view messages;  // JSON array
    std::string_view tools;     // JSON array or null
    std::string_view variables; // JSON object: the special tokens
    std::string_view extra;     // JSON object
    bool add_generation_prompt;
    std::chrono::milliseconds time_limit;
  };

  /// Compiles a template and keeps it for render. @throws text_error naming @p origin and the line when it is
  /// not valid, or when compiling takes longer than @p time_limit.
  void check(std::string_view source, std::string_view origin, std::chrono::milliseconds time_limit);

  /// A template that was not checked is compiled for this call alone.
  /// @throws template_error and text_error as chat_template::render does. @p origin names the template in
  /// errors.
  std::string render(const render_arguments& arguments, std::string_view origin);

 private:
  struct parts;
  python_interpreter();
  static std::unique_lock<std::timed_mutex> take_turn(std::chrono::milliseconds patience);

  std::unique_ptr<parts> parts_;
};

} // namespace troupe::text
