// Hides known leaks of a library from the leak sanitizer.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#  define TROUPE_LEAKS_ARE_REPORTED
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TROUPE_LEAKS_ARE_REPORTED
#  endif
#endif
#ifdef TROUPE_LEAKS_ARE_REPORTED
#  include <sanitizer/lsan_interface.h>
#endif

namespace troupe::test {

/// While it lives, the leak sanitizer treats memory allocated by this thread, and all that it points to, as
/// reachable. For a single call into a library with a known leak; without the sanitizer it does nothing.
class unreported_leaks {
 public:
#ifdef TROUPE_LEAKS_ARE_REPORTED
  unreported_leaks() {
    __lsan_disable();
  }

  ~unreported_leaks() {
    __lsan_enable();
  }
#else
  unreported_leaks() {}

  ~unreported_leaks() {}
#endif
  unreported_leaks(const unreported_leaks&) = delete;
  unreported_leaks& operator=(const unreported_leaks&) = delete;
};

} // namespace troupe::test
