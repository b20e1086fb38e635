// The pool of processes that render a gateway's chat templates. It starts them on demand and replaces dead
// ones.
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
  unsigned most = 4;                  ///< most processes, and so renders, at once
  std::uint64_t memory_bytes = std::uint64_t{1} << 30U; ///< address space of each
  std::chrono::milliseconds start_limit{10'000};        ///< longest start of a process
  /// Writes one line for the operator; called from any thread. Empty: not logged.
  std::function<void(std::string_view event, const std::string& text)> log = {};
};

/// Thread-safe. The first process starts with the first request. One idle process is kept while more may be
/// needed, so a request waits for a start only while all are busy. A template that kills its process costs
/// only its own request. The replacement starts at once, or after a pause that grows while starts fail.
class template_processes {
 public:
  explicit template_processes(template_process_options options);
  /// Kills all processes. No request may be under way.
  ~template_processes();
  template_processes(const template_processes&) = delete;
  template_processes& operator=(const template_processes&) = delete;

  /// @param time_limit  longest wait for a process; again for the answer
  /// @throws template_error  the request killed the process or exceeded its time
  /// @throws text_unavailable  no process is free in time, or none can be started
  template_answer ask(const template_request& request, std::chrono::milliseconds time_limit);

 private:
  class pool;
  std::unique_ptr<pool> pool_;
};

} // namespace troupe::text
