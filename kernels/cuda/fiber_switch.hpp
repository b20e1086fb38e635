// Switches between stacks, for fibers.
//
// On x86-64 a few instructions do it. Elsewhere, and under the address sanitizer (which knows it), the
// library's swapcontext is used; it asks the kernel for the signal mask each time, and is ten times as slow.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define TROUPE_ASAN_FIBERS
#  endif
#elif defined(__SANITIZE_ADDRESS__)
#  define TROUPE_ASAN_FIBERS
#endif
#if !defined(__x86_64__) || defined(TROUPE_ASAN_FIBERS)
#  define TROUPE_SWAPCONTEXT
#  include <ucontext.h>
#endif

namespace troupe::kernels::cuda::emulation {

/// Where a fiber, or the thread that runs fibers, continues.
struct fiber_place {
#ifdef TROUPE_SWAPCONTEXT
  ucontext_t context{};
#else
  void* stack_pointer = nullptr;
#endif
};

/// Prepares `entry` on a stack of its own; it must never return.
void start_at(fiber_place& place, std::byte* stack, std::size_t stack_bytes, void (*entry)());

/// Leaves the running stack; continues there after a switch to `from`.
void switch_fiber(fiber_place& from, fiber_place& to);

} // namespace troupe::kernels::cuda::emulation
