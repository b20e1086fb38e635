// A classic BPF filter; see seccomp(2) and the kernel's Documentation/userspace-api/seccomp_filter.rst.
#include "services/gateway/template/syscall_filter.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace troupe::text {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
#  error "the system calls of this architecture have to be named here"
#endif

/// Memory, time, existing signal handlers, randomness, the open sockets, and exit.
constexpr std::uint32_t allowed[] = {
    __NR_brk,           __NR_madvise,      __NR_mremap,       __NR_munmap,       __NR_futex,
    __NR_clock_gettime, __NR_gettimeofday, __NR_rt_sigaction, __NR_rt_sigreturn, __NR_rt_sigprocmask,
    __NR_sigaltstack,   __NR_getpid,       __NR_gettid,       __NR_getrandom,    __NR_sched_yield,
    __NR_read,          __NR_write,        __NR_recvfrom,     __NR_sendto,       __NR_restart_syscall,
    __NR_exit,          __NR_exit_group,
};
/// Allowed for memory that is not executable.
constexpr std::uint32_t allowed_without_exec[] = {__NR_mmap, __NR_mprotect};

constexpr std::uint32_t allow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;

sock_filter load(std::size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset));
}

sock_filter give(std::uint32_t action) {
  return BPF_STMT(BPF_RET | BPF_K, action);
}

/// Continues with the next instruction if the loaded word is `value`; otherwise skips `count`.
sock_filter unless_equal_skip(std::uint32_t value, std::uint8_t count) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

std::vector<sock_filter> program() {
  // The protection is the third argument of both mmap and mprotect; this is its low half on little-endian
  // machines.
  constexpr auto protection = offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t);
  std::vector<sock_filter> out{load(offsetof(seccomp_data, arch)), unless_equal_skip(architecture, 1),
                               BPF_STMT(BPF_JMP | BPF_JA, 1), give(refuse), load(offsetof(seccomp_data, nr))};
  for (const auto number : allowed) {
    out.push_back(unless_equal_skip(number, 1));
    out.push_back(give(allow));
  }
  for (const auto number : allowed_without_exec) {
    out.push_back(unless_equal_skip(number, 4));
    out.push_back(load(protection));
    out.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
    out.push_back(give(refuse));
    out.push_back(give(allow));
  }
  out.push_back(give(refuse));
  return out;
}

} // namespace

int install_syscall_filter() {
  auto instructions = program();
  const sock_fprog filter{static_cast<unsigned short>(instructions.size()), instructions.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0 ? 0 : errno;
}

} // namespace troupe::text
