#include "services/troupe/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe {

namespace {

/// Pause before writing pids.json is retried.
constexpr auto pids_pause = std::chrono::seconds{1};
/// A child that dies this often before it was ever ready is given up. Fewer deaths may have passing causes,
/// such as a port in use.
constexpr std::uint32_t max_failed_starts = 3;
/// The exit status of role_main for an invalid command line.
constexpr int usage_status = 2;
/// Time for children to end by themselves when the supervisor gives up.
constexpr auto abandoned_grace = std::chrono::seconds{2};

std::system_error last_error(const std::string& what) {
  return {errno, std::generic_category(), what};
}

sigset_t supervised_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGCHLD);
  return set;
}

std::string exit_text(int status) {
  if (WIFSIGNALED(status))
    return "was killed by signal " + std::to_string(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

// A child that does not handle signals yet is ended by the signal itself.
bool obeyed(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) == 0
                           : WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT;
}

} // namespace

supervisor::supervisor(std::filesystem::path run_dir, log_function log, std::optional<probe_limits> probes,
                       restart_pauses pauses)
    : run_dir_(std::move(run_dir)), log_(std::move(log)), pauses_(pauses) {
  sigset_t set = supervised_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0)
    throw last_error("signalfd");
  hung_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (hung_fd_ < 0) {
    int error = errno;
    close(signal_fd_);
    throw std::system_error(error, std::generic_category(), "eventfd");
  }
  if (probes) {
    probes_ = std::make_unique<child_probes>(
        *probes, [this](const std::string& name, pid_t pid, const std::string& why) {
          on_hung({name, pid, why});
        });
  }
}

supervisor::~supervisor() {
  stop_all(abandoned_grace);
  close(signal_fd_);
  close(hung_fd_);
}

/// Runs on the probes' thread.
void supervisor::on_hung(hung_child found) {
  {
    const std::lock_guard lock{hung_mutex_};
    hung_.push_back(std::move(found));
  }
  eventfd_write(hung_fd_, 1);
}

void supervisor::kill_hung() {
  eventfd_t ignored = 0;
  eventfd_read(hung_fd_, &ignored);
  std::vector<hung_child> found;
  {
    const std::lock_guard lock{hung_mutex_};
    found.swap(hung_);
  }
  for (const auto& [name, pid, why] : found) {
    if (children_.at(name).pid == pid) { // not reaped: the number is still its own
      log_(name + " hangs and is killed: " + why);
      kill(pid, SIGKILL);
    }
  }
}

void supervisor::start(child_spec spec) {
  std::string name = spec.name;
  auto [at, inserted] = children_.try_emplace(name);
  if (!inserted)
    throw std::invalid_argument("supervisor: two children are called " + name);
  at->second.spec = std::move(spec);
  spawn(at->second);
  keep_pids();
}

void supervisor::spawn(child& c) {
  int ready_pipe[2];
  if (pipe2(ready_pipe, O_CLOEXEC) != 0)
    throw last_error("pipe2");
  std::vector<std::string> words = c.spec.argv;
  words.insert(words.end(), c.extra_arguments.begin(), c.extra_arguments.end());
  words.emplace_back("--ready-fd");
  words.push_back(std::to_string(ready_pipe[1]));
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) {
    int error = errno;
    close(ready_pipe[0]);
    close(ready_pipe[1]);
    throw std::system_error(error, std::generic_category(), "fork");
  }
  if (pid == 0) {
    // Only async-signal-safe calls here. The child leaves the terminal's process group, so that Ctrl-C
    // reaches the supervisor alone and the children are stopped in order.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    fcntl(ready_pipe[1], F_SETFD, 0);
    execv(argv[0], argv.data());
    constexpr char message[] = "troupe: cannot execute a program of the cluster\n";
    (void)!write(STDERR_FILENO, message, sizeof message - 1);
    _exit(127);
  }
  close(ready_pipe[1]);
  fcntl(ready_pipe[0], F_SETFL, O_NONBLOCK);
  c.pid = pid;
  c.ready_fd = ready_pipe[0];
  c.ready_text.clear();
  c.ready = false;
}

std::optional<std::string> supervisor::wait_ready(const std::string& name,
                                                  std::chrono::milliseconds deadline) {
  auto until = clock::now() + deadline;
  child& c = children_.at(name);
  while (!c.ready && !stopping_) {
    for (const auto& [failed_name, failed] : children_) {
      if (failed.hopeless) {
        throw std::runtime_error(
            failed_name + " ended before it was ready; starts: " + std::to_string(failed.failed_starts));
      }
    }
    if (clock::now() >= until)
      throw std::runtime_error(name + " was not ready in time");
    poll_once(next_due(until));
    do_what_is_due();
  }
  return stopping_ ? std::nullopt : std::optional{c.ready_text};
}

int supervisor::run(std::chrono::milliseconds grace) {
  while (!stopping_) {
    poll_once(next_due(clock::now() + std::chrono::hours{1}));
    do_what_is_due();
  }
  log_("stopping");
  return stop_all(grace) ? 0 : 1;
}

std::chrono::milliseconds supervisor::pause_of(const child& c) const {
  const bool is_done_by_others = std::any_of(children_.begin(), children_.end(), [&](const auto& entry) {
    return entry.second.ready && entry.second.spec.stop_phase == c.spec.stop_phase;
  });
  return is_done_by_others ? c.pause : std::min(c.pause, pauses_.longest_alone);
}

supervisor::clock::time_point supervisor::next_due(clock::time_point at_most) const {
  for (const auto& [name, c] : children_)
    if (c.pid == 0 && !c.hopeless)
      at_most = std::min(at_most, c.died + pause_of(c));
  return std::min(at_most, pids_due_.value_or(at_most));
}

void supervisor::poll_once(clock::time_point until) {
  std::vector<pollfd> fds{{signal_fd_, POLLIN, 0}};
  fds.push_back({hung_fd_, POLLIN, 0});
  std::vector<child*> owners{nullptr, nullptr};
  for (auto& [name, c] : children_) {
    if (c.ready_fd >= 0) {
      fds.push_back({c.ready_fd, POLLIN, 0});
      owners.push_back(&c);
    }
  }
  auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
  int timeout = static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  if (::poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR)
    throw last_error("poll");
  for (std::size_t i = 2; i < fds.size(); ++i)
    if (fds[i].revents != 0)
      read_ready(*owners[i]);
  if (fds[0].revents != 0)
    read_signals();
  if (fds[1].revents != 0)
    kill_hung();
}

void supervisor::read_signals() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) {
      reap();
    } else if (info.ssi_signo == SIGHUP) {
      pass_on_reload();
    } else {
      // `timeout` and terminals send the same request twice.
      impatient_ = impatient_ || (stopping_ && clock::now() - stop_asked_ > stop_repeat);
      if (!stopping_) {
        stop_asked_ = clock::now();
        stop_with_ = static_cast<int>(info.ssi_signo);
      }
      stopping_ = true;
    }
  }
}

/// Only ready children get the signal: SIGHUP could end the others, which are about to read their files
/// anyway.
void supervisor::pass_on_reload() {
  for (const auto& [name, c] : children_)
    if (c.spec.reloads && c.ready && c.pid != 0)
      kill(c.pid, SIGHUP);
}

void supervisor::read_ready(child& c) {
  char buffer[512];
  ssize_t n = read(c.ready_fd, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n > 0)
    c.ready_text.append(buffer, static_cast<std::size_t>(n));
  auto end = c.ready_text.find('\n');
  if (end != std::string::npos) {
    c.ready_text.resize(end);
    c.ready = true;
    c.was_ready = true;
    c.ready_since = clock::now();
    close_ready(c);
    if (c.spec.on_ready)
      c.extra_arguments = c.spec.on_ready(c.ready_text);
    const auto address =
        probes_ && c.spec.health_address ? c.spec.health_address(c.ready_text) : std::string{};
    if (!address.empty())
      probes_->watch(c.spec.name, c.pid, address);
  } else if (n <= 0 || c.ready_text.size() > sizeof buffer) {
    close_ready(c);
  }
}

void supervisor::close_ready(child& c) {
  if (c.ready_fd >= 0) {
    close(c.ready_fd);
    c.ready_fd = -1;
  }
}

void supervisor::reap() {
  bool changed = false;
  for (auto& [name, c] : children_) {
    int status = 0;
    if (c.pid != 0 && waitpid(c.pid, &status, WNOHANG) == c.pid) {
      on_death(name, c, status);
      changed = true;
    }
  }
  if (changed)
    keep_pids();
}

void supervisor::on_death(const std::string& name, child& c, int status) {
  const bool was_settled = c.ready && clock::now() - c.ready_since >= pauses_.settled;
  c.pid = 0;
  c.ready = false;
  close_ready(c);
  if (probes_)
    probes_->forget(name);
  if (stopping_) {
    if (!obeyed(status)) {
      log_(name + " " + exit_text(status) + " while stopping");
      stopped_cleanly_ = false;
    }
    return;
  }
  if (!c.was_ready) {
    ++c.failed_starts;
    c.hopeless =
        c.failed_starts == max_failed_starts || (WIFEXITED(status) && WEXITSTATUS(status) == usage_status);
  }
  if (c.hopeless) {
    log_(name + " " + exit_text(status));
    return;
  }
  c.deaths += c.was_ready ? 1 : 0;
  if (was_settled)
    c.pause = {};
  pause_before_restart(c, exit_text(status));
}

void supervisor::pause_before_restart(child& c, const std::string& why) {
  c.died = clock::now();
  c.pause = std::clamp(c.pause * 2, pauses_.first, pauses_.longest);
  c.pause = pause_of(c); // not doubled further while it is shortened
  log_(c.spec.name + " " + why + "; starting it again in " + std::to_string(c.pause.count()) + " ms"
       + (c.deaths > 1 ? ", deaths so far: " + std::to_string(c.deaths) : ""));
}

void supervisor::do_what_is_due() {
  bool changed = pids_due_ && clock::now() >= *pids_due_;
  for (auto& [name, c] : children_) {
    if (!stopping_ && c.pid == 0 && !c.hopeless && clock::now() >= c.died + pause_of(c)) {
      try {
        spawn(c);
        changed = true;
      } catch (const std::system_error& error) { // too many processes or files for now
        pause_before_restart(c, std::string{"cannot be started: "} + error.what());
      }
    }
  }
  if (changed)
    keep_pids();
}

bool supervisor::stop_all(std::chrono::milliseconds grace) {
  stopping_ = true;
  probes_.reset();
  auto deadline = clock::now() + grace;
  std::vector<std::uint32_t> phases;
  for (const auto& [name, c] : children_)
    phases.push_back(c.spec.stop_phase);
  std::sort(phases.begin(), phases.end());
  phases.erase(std::unique(phases.begin(), phases.end()), phases.end());
  for (std::uint32_t phase : phases) {
    auto in_phase = [phase](const auto& entry) {
      return entry.second.spec.stop_phase == phase && entry.second.pid != 0;
    };
    for (auto& entry : children_)
      if (in_phase(entry))
        kill(entry.second.pid, stop_with_);
    while (std::any_of(children_.begin(), children_.end(), in_phase) && clock::now() < deadline
           && !impatient_)
      poll_once(deadline);
    for (auto& entry : children_) {
      if (in_phase(entry)) {
        log_(entry.first
             + (impatient_ ? " is killed: a second signal came" : " did not stop in time; killing it"));
        stopped_cleanly_ = false;
        kill(entry.second.pid, SIGKILL);
        int status = 0;
        waitpid(entry.second.pid, &status, 0);
        entry.second.pid = 0;
        close_ready(entry.second);
      }
    }
  }
  if (!children_.empty())
    keep_pids();
  return stopped_cleanly_;
}

void supervisor::keep_pids() {
  try {
    write_pids();
    if (pids_due_.has_value())
      log_("pids.json is written again");
    pids_due_.reset();
  } catch (const std::runtime_error& error) {
    if (!pids_due_.has_value()) // logged once
      log_(std::string{error.what()} + "; trying again each second, until then pids.json is out of date");
    pids_due_ = clock::now() + pids_pause;
  }
}

void supervisor::write_pids() const {
  nlohmann::json pids = nlohmann::json::object();
  for (const auto& [name, c] : children_)
    if (c.pid != 0)
      pids[name] = c.pid;
  auto target = run_dir_ / "pids.json";
  auto temporary = run_dir_ / "pids.json.new";
  errno = 0;
  std::ofstream out(temporary);
  out << pids.dump(2) << '\n';
  out.close();
  if (!out)
    throw last_error("cannot write " + temporary.string());
  std::filesystem::rename(temporary, target);
}

} // namespace troupe
