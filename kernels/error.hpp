// What kernels throw while things are built, and how they stop on a programming error afterwards.
#pragma once

#include <stdexcept>
#include <string>

namespace troupe::kernels {

/// Bad weights, shapes or options, found while something is built. Never thrown by an op.
class kernel_error : public std::runtime_error {
 public:
  explicit kernel_error(const std::string& what) : std::runtime_error(what) {}

  /// Whether the device is lost to this process: every later call fails, until a new process uses it.
  virtual bool is_device_lost() const noexcept { return false; }

  /// Whether memory has run out: other calls go on, and this one may once memory was given back.
  virtual bool is_out_of_memory() const noexcept { return false; }
};

/// Prints "troupe kernels: <what>" and aborts.
[[noreturn]] void fail(const char* what) noexcept;

/// Checks a caller's promise, for example that shapes agree; `what` names op and promise.
inline void expect(bool holds, const char* what) noexcept {
  if (!holds) [[unlikely]]
    fail(what);
}

} // namespace troupe::kernels
