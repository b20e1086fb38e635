// Keeps the processes of a local cluster running: starts them, restarts what dies, and stops all of them in
// order.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace troupe {

/// A process to keep running.
struct child_spec {
  std::string name;              ///< "expert-1"; the key in pids.json
  std::vector<std::string> argv; ///< argv[0] is the program's path
  uint32_t stop_phase = 0;       ///< children of lower phases are stopped first
  /// Called with the line that the child writes to its ready descriptor, each time it comes up. What it
  /// returns is appended to argv at the next start (a port to listen on again, say).
  std::function<std::vector<std::string>(const std::string& line)> on_ready;
};

/// Runs children until SIGTERM or SIGINT. Not thread-safe: one thread constructs it and calls run(). It
/// blocks SIGTERM, SIGINT and SIGCHLD for the process, so it must be constructed before any thread starts.
///
/// A child that dies is started again after a pause that doubles from 100 ms to 5 s while it dies within ten
/// seconds of its start. Children get SIGTERM when the supervisor itself dies.
class supervisor {
 public:
  using log_function = std::function<void(const std::string& line)>;

  /// @param run_dir  gets pids.json: process name → pid, replaced atomically whenever it changes
  supervisor(std::filesystem::path run_dir, log_function log);
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Starts a child; may be called before run() and from on_ready.
  /// @throws std::system_error when the process cannot be created
  void start(child_spec spec);

  /// Waits until the named child has reported ready.
  /// @returns its line
  /// @throws std::runtime_error when it dies first, or nothing is heard before the deadline, or a signal says
  /// stop
  std::string wait_ready(const std::string& name, std::chrono::milliseconds deadline);

  /// Supervises until SIGTERM or SIGINT, then stops all children: SIGTERM phase by phase, SIGKILL for what is
  /// left `grace` after the first.
  /// @returns 0, or 1 when a child had to be killed or ended badly while stopping
  int run(std::chrono::milliseconds grace);

 private:
  using clock = std::chrono::steady_clock;

  struct child {
    child_spec spec;
    std::vector<std::string> extra_arguments; ///< what on_ready returned
    pid_t pid = 0;                            ///< 0: not running
    int ready_fd = -1;
    std::string ready_text;
    bool ready = false;
    clock::time_point started;
    clock::time_point restart_at; ///< when pid is 0
    std::chrono::milliseconds pause{0};
  };

  void spawn(child& c);
  void poll_once(clock::time_point until);
  void read_signals();
  void read_ready(child& c);
  void reap();
  void restart_due();
  bool stop_all(std::chrono::milliseconds grace);
  void write_pids() const;
  void close_ready(child& c);

  std::filesystem::path run_dir_;
  log_function log_;
  int signal_fd_ = -1;
  bool stopping_ = false;
  bool stopped_cleanly_ = true;
  std::map<std::string, child> children_;
};

} // namespace troupe
