// Errors of kernels: an exception while something is built, and an abort for programming errors afterwards.
#pragma once

#include <stdexcept>
#include <string>

namespace troupe::kernels {

/// Bad weights, shapes or options, found during construction. Ops never throw it.
class kernel_error : public std::runtime_error {
 public:
  explicit kernel_error(const std::string& what) : std::runtime_error(what) {}

  /// Whether this process has lost the device: every later call fails, until a new process uses it.
  virtual bool is_device_lost() const noexcept { return false; }

  /// Whether memory ran out: other calls continue, and this one may succeed once memory was freed.
  virtual bool is_out_of_memory() const noexcept { return false; }
};

/// Prints "troupe kernels: <what>" and aborts.
[[noreturn]] void fail(const char* what) noexcept;

/// Checks a precondition, for example that shapes agree; `what` names op and condition.
inline void expect(bool holds, const char* what) noexcept {
  if (!holds) [[unlikely]]
    fail(what);
}

} // namespace troupe::kernels
