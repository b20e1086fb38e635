// Starts the processes of a local cluster, restarts dead ones, and stops all of them in order.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "services/startup/stop_signal.hpp"
#include "services/troupe/child_probes.hpp"

namespace troupe {

/// A process to keep running.
struct child_spec {
  std::string name;              ///< "expert-1"; the key in pids.json
  std::vector<std::string> argv; ///< argv[0] is the program's path
  std::uint32_t stop_phase = 0;  ///< children of lower phases are stopped first
  bool reloads = false;          ///< the supervisor forwards SIGHUP to it while it is ready
  /// HOST:PORT of /health, given the child's ready line; empty: the child is not probed. See `child_probes`.
  std::function<std::string(const std::string& line)> health_address;
  /// Called with the child's ready line each time that it becomes ready. The result is appended to argv at
  /// the next start, for example a port to listen on again.
  std::function<std::vector<std::string>(const std::string& line)> on_ready;
};

/// Pauses before a dead child is restarted.
struct restart_pauses {
  std::chrono::milliseconds first{100};
  std::chrono::milliseconds longest{30000};
  /// Longest pause while no other child of the same phase is ready to do its work: less than the 2 s that
  /// requests wait for an absent scheduler.
  std::chrono::milliseconds longest_alone{800};
  std::chrono::milliseconds settled{2000}; ///< after this time as ready, pauses begin with `first` again
};

/// Runs children until SIGTERM or SIGINT. Not thread-safe: one thread constructs it and calls run(). It
/// blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD for the process, so it must be constructed before any thread
/// starts.
///
/// A dead child is restarted after a pause that doubles with each death (`restart_pauses`). A child that was
/// ready and does not answer its probes is killed and then restarted. The system kills the children when the
/// supervisor dies: otherwise they would keep ports and memory from the next cluster.
class supervisor {
 public:
  using log_function = std::function<void(const std::string& line)>;

  /// @param run_dir  gets pids.json: process name → pid, replaced atomically whenever it changes
  /// @param probes   when a child counts as hung; empty: no child is probed
  supervisor(std::filesystem::path run_dir, log_function log, std::optional<probe_limits> probes = {},
             restart_pauses pauses = {});
  /// Stops children that run() has not stopped, and kills those that still run two seconds later.
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Starts a child; may be called before run() and from on_ready.
  /// @throws std::system_error when the process cannot be created
  void start(child_spec spec);

  /// Waits until the named child is ready, and restarts children that die meanwhile.
  /// @returns its ready line; empty after a stop signal: then run() stops all children
  /// @throws std::runtime_error when the child is not ready before the deadline, or when a child that was
  /// never ready dies for the third time or rejects its command line (status 2)
  std::optional<std::string> wait_ready(const std::string& name, std::chrono::milliseconds deadline);

  /// Supervises until SIGTERM or SIGINT. Then sends the same signal to all children, phase by phase, and
  /// SIGKILL to those that run `grace` after the first signal, or at a second signal.
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
    bool was_ready = false;             ///< since the first time
    std::uint32_t failed_starts = 0;    ///< deaths before that
    bool hopeless = false;              ///< was never ready, and another start would fail as well
    clock::time_point ready_since;      ///< while `ready`
    clock::time_point died;             ///< when pid is 0
    std::chrono::milliseconds pause{0}; ///< after the last death
    std::uint64_t deaths = 0;           ///< since it was first ready
  };

  struct hung_child {
    std::string name;
    pid_t pid;
    std::string why;
  };

  void on_hung(hung_child found);
  void kill_hung();
  void spawn(child& c);
  void poll_once(clock::time_point until);
  void read_signals();
  void pass_on_reload();
  void read_ready(child& c);
  void reap();
  void on_death(const std::string& name, child& c, int status);
  void pause_before_restart(child& c, const std::string& why);
  std::chrono::milliseconds pause_of(const child& c) const;
  void do_what_is_due();
  clock::time_point next_due(clock::time_point at_most) const;
  bool stop_all(std::chrono::milliseconds grace);
  void keep_pids();
  void write_pids() const;
  void close_ready(child& c);

  std::filesystem::path run_dir_;
  log_function log_;
  restart_pauses pauses_;
  int signal_fd_ = -1;
  int hung_fd_ = -1; ///< an eventfd: `hung_` is not empty
  std::mutex hung_mutex_;
  std::vector<hung_child> hung_;
  bool stopping_ = false;
  bool impatient_ = false; // a second signal has come, later than `stop_repeat`
  clock::time_point stop_asked_{};
  int stop_with_ = SIGTERM;
  bool stopped_cleanly_ = true;
  std::map<std::string, child> children_;
  std::optional<clock::time_point> pids_due_; ///< when to retry writing pids.json; empty: it is up to date
  std::unique_ptr<child_probes> probes_;      ///< null: no child is probed
};

} // namespace troupe
