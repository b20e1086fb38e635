// One child process that renders chat templates (services/gateway/template), seen from its gateway.
#pragma once

#include "services/gateway/template/template_message.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <sys/types.h>

namespace troupe::text {

/// The process is unusable: it is late, has died, or sent an unexpected answer. `what()` is for the client.
struct template_process_error : std::runtime_error {
  template_process_error(const std::string& text, bool late) : std::runtime_error(text), is_late(late) {}

  bool is_late; ///< it was running at the deadline
};

/// The constructor starts the process, and the destructor kills it at the latest. For one thread at a time.
class template_process {
 public:
  /// Starts the program and waits until it can render. The calling thread must live as long as the process:
  /// the kernel kills the process when that thread ends.
  /// @throws std::runtime_error naming the program and what is wrong
  template_process(const std::filesystem::path& program, std::uint64_t memory_bytes,
                   std::chrono::milliseconds patience);
  ~template_process();
  template_process(const template_process&) = delete;
  template_process& operator=(const template_process&) = delete;

  /// @throws template_process_error; the process is dead then
  template_answer ask(const template_request& request, std::chrono::milliseconds time_limit);

  /// Whether the process waits for work. False once it has died, or written something unasked.
  bool is_idle() const;

  /// For poll: readable when the process has ended; -1 if the kernel has no pidfds.
  int end_handle() const noexcept { return end_handle_; }

  pid_t pid() const noexcept { return pid_; }

  /// The confinement that the process could not get here; empty: it has all.
  const std::string& unconfined() const noexcept { return unconfined_; }

 private:
  void limit_cpu(std::chrono::milliseconds more) const;
  std::string kill() noexcept;

  int socket_ = -1;
  int end_handle_ = -1; // a pidfd
  pid_t pid_ = -1;
  std::string unconfined_;
};

} // namespace troupe::text
