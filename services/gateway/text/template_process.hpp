// One child process that renders chat templates (services/gateway/template), as its gateway sees it.
#pragma once

#include "services/gateway/template/template_message.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <sys/types.h>

namespace troupe::text {

/// The process is of no use any more: it is late, has died, or answers what nobody asked. `what()` is for the
/// client.
struct template_process_error : std::runtime_error {
  template_process_error(const std::string& text, bool late) : std::runtime_error(text), is_late(late) {}

  bool is_late; ///< it still ran at the deadline
};

/// Starts with the constructor and is killed, at the latest, by the destructor. Used by one thread at a time.
class template_process {
 public:
  /// Starts the program and waits until it can render. The thread that calls this must live as long as the
  /// process is wanted: the kernel kills the process when that thread ends.
  /// @throws std::runtime_error naming the program and what is wrong
  template_process(const std::filesystem::path& program, std::uint64_t memory_bytes,
                   std::chrono::milliseconds patience);
  ~template_process();
  template_process(const template_process&) = delete;
  template_process& operator=(const template_process&) = delete;

  /// @throws template_process_error; the process is dead then
  template_answer ask(const template_request& request, std::chrono::milliseconds time_limit);

  /// Whether it still waits for work. One that has died, or says something unasked, does not.
  bool is_idle() const;

  /// To be polled: readable when the process has ended; -1 where the kernel has no such handles.
  int end_handle() const noexcept { return end_handle_; }

  pid_t pid() const noexcept { return pid_; }

  /// What confinement the process could not get here; empty: it has all.
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
