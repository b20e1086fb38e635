#include "services/gateway/text/template_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::text {

namespace {

/// Longest wait for the end of a killed process.
constexpr int reap_ms = 1000;

/// The name of this process's time zone. Without it the C library reads a file at each conversion, and a
/// confined process has no files.
std::string time_zone() {
  if (const char* zone = std::getenv("TZ"); zone != nullptr)
    return zone;
  constexpr const char* file = "/etc/localtime";
  return access(file, R_OK) == 0 ? std::string(":") + file : "UTC0";
}

/// How posix_spawn starts a child: descriptor 3 is its socket, no other descriptor of this process is open,
/// and signals have their defaults.
class spawn_plan {
 public:
  explicit spawn_plan(int child_socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, child_socket, 3);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 4);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t usual;
    sigemptyset(&usual);
    for (const int one : {SIGPIPE, SIGCHLD, SIGXCPU, SIGXFSZ})
      sigaddset(&usual, one);
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }

  spawn_plan(const spawn_plan&) = delete;
  spawn_plan& operator=(const spawn_plan&) = delete;

  ~spawn_plan() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }

  /// @returns 0 or an errno
  int start(const std::string& program, const std::vector<std::string>& words, pid_t& pid) {
    std::vector<char*> arguments;
    for (const auto& word : words)
      arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    std::string zone_variable = "TZ=" + time_zone();
    std::array<char*, 2> environment{zone_variable.data(), nullptr};
    return posix_spawn(&pid, program.c_str(), &actions_, &attributes_, arguments.data(), environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGXCPU ? "its CPU time was used up"
                                       : "signal " + std::to_string(WTERMSIG(status));
  }
  return "status " + std::to_string(WEXITSTATUS(status));
}

} // namespace

template_process::template_process(const std::filesystem::path& program, std::uint64_t memory_bytes,
                                   std::chrono::milliseconds patience) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error("chat templates: " + program.string() + ": " + what);
  };
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(std::string("no socket: ") + std::strerror(errno));
  socket_ = ends[0];
  const int error = spawn_plan(ends[1]).start(
      program.string(), {program.string(), std::to_string(getpid()), std::to_string(memory_bytes)}, pid_);
  close(ends[1]);
  if (error != 0) {
    close(socket_);
    fail(std::string("cannot be started: ") + std::strerror(error));
  }
  end_handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)); // closed on exec
  std::string flaw;
  try {
    auto hello =
        receive_message(socket_, template_answer_strings, std::chrono::steady_clock::now() + patience);
    if (hello[0] == "ready")
      unconfined_ = std::move(hello[1]);
    else
      flaw = hello[0] == "failed" ? hello[1] : "it is another program";
  } catch (const message_error& e) {
    flaw = e.what();
  }
  if (!flaw.empty()) {
    const auto end = kill();
    fail(flaw + " (" + end + ")");
  }
}

template_process::~template_process() {
  kill();
}

/// Limits CPU time in addition to this process's deadline: a child must not run on while the gateway is
/// stalled.
void template_process::limit_cpu(std::chrono::milliseconds more) const {
  clockid_t clock{};
  timespec used{};
  rlimit limit{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0
      || prlimit(pid_, RLIMIT_CPU, nullptr, &limit) != 0)
    return; // it has died; the next request reports that
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(more).count() + 1;
  limit.rlim_cur = std::min(static_cast<rlim_t>(used.tv_sec + seconds), limit.rlim_max);
  prlimit(pid_, RLIMIT_CPU, &limit, nullptr);
}

template_answer template_process::ask(const template_request& request, std::chrono::milliseconds time_limit) {
  limit_cpu(time_limit);
  const std::array<std::string_view, template_request_strings> strings{
      request.task,  request.keep,      request.source, request.messages,
      request.tools, request.variables, request.extra,  request.add_generation_prompt};
  const auto deadline = std::chrono::steady_clock::now() + time_limit;
  try {
    send_message(socket_, strings, deadline);
    auto got = receive_message(socket_, template_answer_strings, deadline);
    template_answer answer{std::move(got[0]), std::move(got[1])};
    const bool known = answer.kind == (request.task == "render" ? "prompt" : "valid");
    if (known || answer.kind == "request" || answer.kind == "template")
      return answer;
    kill();
    throw template_process_error("the process that renders chat templates gave an answer of no kind", false);
  } catch (const message_error& e) {
    const auto end = kill();
    if (e.what_kind == message_error::kind::late) {
      throw template_process_error(
          "rendering the chat template takes more than " + std::to_string(time_limit.count()) + " ms", true);
    }
    throw template_process_error(e.what_kind == message_error::kind::closed
                                     ? "the process that rendered the chat template died (" + end + ")"
                                     : std::string("the process that renders chat templates gave ")
                                           + e.what(),
                                 false);
  }
}

bool template_process::is_idle() const {
  pollfd state{socket_, POLLIN, 0};
  return poll(&state, 1, 0) == 0;
}

/// Kills the process and reaps it.
/// @returns the cause of its death
std::string template_process::kill() noexcept {
  if (pid_ < 0)
    return "dead";
  close(socket_);
  socket_ = -1;
  ::kill(pid_, SIGKILL);
  if (end_handle_ >= 0) {
    pollfd end{end_handle_, POLLIN, 0};
    while (poll(&end, 1, reap_ms) < 0 && errno == EINTR) {
    }
  }
  int status = 0;
  // Without pidfds, this waits for the end of the process. A process that the kernel does not release in time
  // stays a zombie until this process ends.
  const auto reaped = waitpid(pid_, &status, end_handle_ >= 0 ? WNOHANG : 0);
  if (end_handle_ >= 0)
    close(end_handle_);
  pid_ = -1;
  return reaped > 0 ? describe(status) : "it cannot be killed";
}

} // namespace troupe::text
