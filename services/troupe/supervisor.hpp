// Keeps the processes of a local cluster running: starts them, restarts what dies, and stops all of them in
// order.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "services/troupe/child_probes.hpp"

namespace troupe {

/// A process to keep running.
struct child_spec {
  std::string name;              ///< "expert-1"; the key in pids.json
  std::vector<std::string> argv; ///< argv[0] is the program's path
  uint32_t stop_phase = 0;       ///< children of lower phases are stopped first
  bool reloads = false;          ///< gets the SIGHUPs that the supervisor gets, once it is ready
  /// Where the child answers /health, by its ready line: HOST:PORT, or empty: nowhere. See `child_probes`.
  std::function<std::string(const std::string& line)> health_address;
  /// Called with the line that the child writes to its ready descriptor, each time it comes up. What it
  /// returns is appended to argv at the next start (a port to listen on again, say).
  std::function<std::vector<std::string>(const std::string& line)> on_ready;
};

/// When a child that was ready dies so often that starting it again mends nothing.
struct crash_limits {
  std::chrono::seconds window{600};
  size_t patient = 6; ///< from so many deaths in the window on, pauses grow to `longest_pause`
  size_t most = 16;   ///< with so many all is stopped, and run() returns 1
  std::chrono::milliseconds longest_pause{30000};
};

/// Runs children until SIGTERM or SIGINT. Not thread-safe: one thread constructs it and calls run(). It
/// blocks SIGTERM, SIGINT, SIGHUP and SIGCHLD for the process, so it must be constructed before any thread
/// starts.
///
/// A child that dies is started again after a pause that doubles from 100 ms to 800 ms while it dies within
/// ten seconds of its start: less than the 2 s for which requests wait for a scheduler that is away. One that
/// goes on dying waits longer, and at last the supervisor gives up (`crash_limits`). One that was ready and
/// does not answer its probes is killed, and so started again. Children get SIGTERM when the supervisor
/// itself dies.
class supervisor {
 public:
  using log_function = std::function<void(const std::string& line)>;

  /// @param run_dir  gets pids.json: process name → pid, replaced atomically whenever it changes
  /// @param probes   when a child counts as hung; nothing: no child is asked
  supervisor(std::filesystem::path run_dir, log_function log, crash_limits crashes = {},
             std::optional<probe_limits> probes = {});
  /// Stops what run() has not stopped, and kills what has not ended two seconds later.
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Starts a child; may be called before run() and from on_ready.
  /// @throws std::system_error when the process cannot be created
  void start(child_spec spec);

  /// Waits until the named child has reported ready, and starts again what dies meanwhile.
  /// @returns its line; nothing when a signal says stop: then run() stops all
  /// @throws std::runtime_error when nothing is heard before the deadline, or when a child that was never
  /// ready dies for the third time or refuses its command line (status 2), which no further start would mend
  std::optional<std::string> wait_ready(const std::string& name, std::chrono::milliseconds deadline);

  /// Supervises until SIGTERM or SIGINT, or until a child has died too often, then stops all children: the
  /// same signal phase by phase, SIGKILL for what is left `grace` after the first, or when a second signal
  /// comes.
  /// @returns 0, or 1 when a child had to be killed or ended badly while stopping, or died too often
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
    bool was_ready = false;     ///< since the first time
    uint32_t failed_starts = 0; ///< deaths before that
    bool hopeless = false;      ///< one more start would not mend it
    clock::time_point started;
    clock::time_point restart_at; ///< when pid is 0
    std::chrono::milliseconds pause{0};
    std::deque<clock::time_point> deaths; ///< of those since it was ready first, in the window
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
  void bury(const std::string& name, child& c, int status);
  void restart_due();
  clock::time_point next_restart(clock::time_point at_most) const;
  bool stop_all(std::chrono::milliseconds grace);
  void write_pids() const;
  void close_ready(child& c);

  std::filesystem::path run_dir_;
  log_function log_;
  crash_limits crashes_;
  int signal_fd_ = -1;
  int hung_fd_ = -1; ///< an eventfd: somebody is in `hung_`
  std::mutex hung_mutex_;
  std::vector<hung_child> hung_;
  bool gave_up_ = false;
  bool stopping_ = false;
  bool impatient_ = false; // a second signal has come
  int stop_with_ = SIGTERM;
  bool stopped_cleanly_ = true;
  std::map<std::string, child> children_;
  std::unique_ptr<child_probes> probes_; ///< null: nobody is asked
};

} // namespace troupe
