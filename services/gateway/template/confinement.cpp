#include "services/gateway/template/confinement.hpp"

#include "services/gateway/template/syscall_filter.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace troupe::text {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#elif defined(__has_feature)
constexpr bool is_sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool is_sanitized = false;
#endif

/// Lowers a limit for good, unless it is lower already.
void limit(__rlimit_resource what, rlim_t most, const char* name) {
  rlimit now{};
  if (getrlimit(what, &now) == 0 && now.rlim_max > most)
    now.rlim_max = most;
  now.rlim_cur = now.rlim_max;
  if (setrlimit(what, &now) != 0)
    throw std::system_error(errno, std::generic_category(), std::string("setrlimit ") + name);
}

} // namespace

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) // it has died already
    _exit(0);
  // When the system runs out of memory, the kernel kills this process first, not the gateway.
  if (const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); score >= 0) {
    (void)!write(score, "1000", 4);
    close(score);
  }
  // Ctrl-C and a service manager's SIGTERM reach the whole process group. The gateway drains first and needs
  // templates until then; this process ends when the gateway closes the socket.
  for (const int one : {SIGINT, SIGTERM, SIGHUP})
    signal(one, SIG_IGN);
}

std::string confine(std::uint64_t memory_bytes) {
  constexpr int niceness = 5; // yields the processors to streaming and computing
  (void)setpriority(PRIO_PROCESS, 0, niceness);
  if (!is_sanitized) // sanitizers reserve terabytes of address space; main.cpp bounds their allocations
    limit(RLIMIT_AS, memory_bytes, "AS");
  limit(RLIMIT_CORE, 0, "CORE");
  limit(RLIMIT_FSIZE, 0, "FSIZE");
  limit(RLIMIT_NOFILE, 0, "NOFILE"); // nothing can be opened, sockets included
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return std::string("no_new_privs: ") + std::strerror(errno);
  if (const int error = install_syscall_filter(); error != 0)
    return std::string("seccomp: ") + std::strerror(error);
  return {};
}

} // namespace troupe::text
