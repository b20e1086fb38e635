#include "kernels/cuda/fiber_switch.hpp"

#include <cstdint>

#ifndef TROUPE_SWAPCONTEXT
// Saves the callee-saved registers (System V ABI) on the old stack, and restores them from the new one.
asm(R"(
.text
.type troupe_switch_stack, @function
troupe_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size troupe_switch_stack, .-troupe_switch_stack
)");
extern "C" void troupe_switch_stack(void** from, void* to);
#endif

namespace troupe::kernels::cuda::emulation {

#ifdef TROUPE_SWAPCONTEXT

void start_at(fiber_place& place, std::byte* stack, std::size_t stack_bytes, void (*entry)()) {
  getcontext(&place.context);
  place.context.uc_stack.ss_sp = stack;
  place.context.uc_stack.ss_size = stack_bytes;
  place.context.uc_link = nullptr;
  makecontext(&place.context, entry, 0);
}

void switch_fiber(fiber_place& from, fiber_place& to) {
  swapcontext(&from.context, &to.context);
}

#else

void start_at(fiber_place& place, std::byte* stack, std::size_t stack_bytes, void (*entry)()) {
  constexpr std::uintptr_t alignment = 16;
  constexpr std::size_t saved_registers = 6;
  auto* top = reinterpret_cast<std::uintptr_t*>(reinterpret_cast<std::uintptr_t>(stack + stack_bytes)
                                                / alignment * alignment);
  *--top = 0; // return address of `entry`: a function finds its stack 8 bytes off such a multiple
  *--top = reinterpret_cast<std::uintptr_t>(entry);
  for (std::size_t i = 0; i < saved_registers; ++i)
    *--top = 0;
  place.stack_pointer = top;
}

void switch_fiber(fiber_place& from, fiber_place& to) {
  troupe_switch_stack(&from.stack_pointer, to.stack_pointer);
}

#endif

} // namespace troupe::kernels::cuda::emulation
