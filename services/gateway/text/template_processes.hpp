// The processes that render a gateway's chat templates: started when they are needed, replaced when they die.
#pragma once

#include "services/gateway/template/template_message.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace troupe::text {

struct template_process_options {
  std::filesystem::path program = {}; ///< empty: `troupe-template` beside the running program
  unsigned most = 4;                  ///< processes at once, and so renders
  std::uint64_t memory_bytes = std::uint64_t{1} << 30U; ///< address space of each
  std::chrono::milliseconds start_limit{10'000};        ///< for one of them to start
  /// Takes one line for the operator; called from any thread. Empty: nobody.
  std::function<void(std::string_view event, const std::string& text)> log = {};
};

/// Thread-safe. The first process starts with the first request, and one is kept idle as long as there may be
/// more: a request waits for a start only while all are busy. What a template does to its process costs that
/// one request; the process is killed, and another one starts at once, or after a pause that grows while none
/// comes up.
class template_processes {
 public:
  explicit template_processes(template_process_options options);
  /// Kills all of them. No request may be under way.
  ~template_processes();
  template_processes(const template_processes&) = delete;
  template_processes& operator=(const template_processes&) = delete;

  /// @param time_limit  for waiting for a process, and again for the answer
  /// @throws template_error when the process dies of it or is not done in time; text_unavailable when no
  /// process is free in time or none can be started
  template_answer ask(const template_request& request, std::chrono::milliseconds time_limit);

 private:
  class pool;
  std::unique_ptr<pool> pool_;
};

} // namespace troupe::text
