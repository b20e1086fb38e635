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

/// Lowers a limit for good, as far as it is not lower already.
void limit(__rlimit_resource what, rlim_t most, const char* name) {
  rlimit now{};
  if (getrlimit(what, &now) == 0 && now.rlim_max > most) {
    now.rlim_max = most;
  }
  now.rlim_cur = now.rlim_max;
  if (setrlimit(what, &now) != 0) {
    throw std::system_error(errno, std::generic_category(), std::string("setrlimit ") + name);
  }
}

} // namespace

void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) { // it died before
    _exit(0);
  }
  // Where memory runs out altogether, the kernel takes this process first, not the gateway.
  if (const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); score >= 0) {
    (void)!write(score, "1000", 4);
    close(score);
  }
  // An operator's Ctrl-C and a service manager's SIGTERM reach the whole group: the gateway drains first, and
  // needs templates until then. This process ends when the gateway closes the socket.
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) {
    signal(one, SIG_IGN);
  }
}

std::string confine(std::uint64_t memory_bytes) {
  constexpr int niceness = 5; // behind all that streams and computes on these processors
  (void)setpriority(PRIO_PROCESS, 0, niceness);
  if (!is_sanitized) { // sanitizers reserve terabytes of addresses; main.cpp bounds what they allocate
    limit(RLIMIT_AS, memory_bytes, "AS");
  }
  limit(RLIMIT_CORE, 0, "CORE");
  limit(RLIMIT_FSIZE, 0, "FSIZE");
  limit(RLIMIT_NOFILE, 0, "NOFILE"); // nothing can be opened any more, no socket either
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return std::string("no_new_privs: ") + std::strerror(errno);
  }
  if (const int error = install_syscall_filter(); error != 0) {
    return std::string("seccomp: ") + std::strerror(error);
  }
  return {};
}

} // namespace troupe::text
