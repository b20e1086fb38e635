#include "tests/simulation/schedule_series.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <system_error>

#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::simulation {

namespace {

// Of one child: they are mostly the same.
constexpr std::size_t most_failures = 3;

// Of processor time, for one schedule; one takes some 20 ms. SIGPROF then ends the child, which is a failure
// of its seed. Not of real time: a machine that has other things to do would fail seeds.
constexpr time_t longest_schedule_s = 60;

/// Ends this process after so much processor time from now on; 0: not.
void end_after(time_t seconds) {
  itimerval limit{};
  limit.it_value.tv_sec = seconds;
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const auto written = ::write(fd, text.data() + done, text.size() - done);
    if (written <= 0)
      return; // the parent does not read any more
    done += static_cast<std::size_t>(written);
  }
}

/// Tells the parent, a line each: "begin SEED", "failed SEED WHAT", "done REQUESTS REFUSED MESSAGES
/// NANOSECONDS".
void run_share(const series_options& options, std::uint32_t index, int to) {
  std::size_t num_failures = 0;
  for (auto i = std::uint64_t{index}; i < options.schedules && num_failures < most_failures;
       i += options.jobs) {
    auto schedule = options.each;
    schedule.seed = options.first_seed + i;
    write_all(to, "begin " + std::to_string(schedule.seed) + '\n');
    end_after(longest_schedule_s);
    const auto result = run_schedule(schedule);
    end_after(0);
    if (!result.violations.empty()) {
      ++num_failures;
      write_all(to, "failed " + std::to_string(schedule.seed) + ' ' + result.violations.front() + '\n');
    }
    write_all(to, "done " + std::to_string(result.num_requests) + ' ' + std::to_string(result.num_refused)
                      + ' ' + std::to_string(result.messages) + ' ' + std::to_string(result.lasted.count())
                      + '\n');
  }
}

/// Adds what a child has told. @returns the seed that it was at last
std::uint64_t take(std::istream& told, series_result& total) {
  std::uint64_t seed = 0;
  std::string line;
  while (std::getline(told, line)) {
    std::istringstream words{line};
    std::string word;
    words >> word;
    if (word == "begin") {
      words >> seed;
    } else if (word == "failed") {
      series_result::failure next;
      words >> next.seed >> std::ws;
      std::getline(words, next.what);
      total.failures.push_back(std::move(next));
    } else if (word == "done") {
      std::uint64_t requests = 0;
      std::uint64_t refused = 0;
      std::uint64_t messages = 0;
      std::int64_t nanoseconds = 0;
      words >> requests >> refused >> messages >> nanoseconds;
      ++total.schedules;
      total.requests += requests;
      total.refused += refused;
      total.messages += messages;
      total.virtual_seconds += std::chrono::duration<double>(duration{nanoseconds}).count();
    }
  }
  return seed;
}

struct child {
  pid_t id = 0;
  int told = -1; ///< memory that it writes to; a pipe would be full before it is read
};

child start(const series_options& options, std::uint32_t index) {
  const int told = ::memfd_create("told", MFD_CLOEXEC);
  if (told < 0)
    throw std::system_error(errno, std::generic_category(), "cannot make memory for what a child tells");
  const auto id = ::fork();
  if (id < 0)
    throw std::system_error(errno, std::generic_category(), "cannot start a child");
  if (id == 0) {
    run_share(options, index, told);
    ::_exit(0);
  }
  return {id, told};
}

std::string read_all(int fd) {
  ::lseek(fd, 0, SEEK_SET);
  std::string result;
  std::array<char, 65536> some{};
  while (true) {
    const auto count = ::read(fd, some.data(), some.size());
    if (count > 0)
      result.append(some.data(), static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)
      return result;
  }
}

} // namespace

series_result run_series(const series_options& options) {
  const auto jobs = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.jobs, options.schedules));
  auto shared = options;
  shared.jobs = jobs;
  std::vector<child> children;
  for (std::uint32_t i = 0; i < jobs; ++i)
    children.push_back(start(shared, i));
  series_result total;
  for (const auto& one : children) {
    int status = 0;
    while (::waitpid(one.id, &status, 0) < 0 && errno == EINTR) {
    }
    std::istringstream told{read_all(one.told)};
    ::close(one.told);
    const auto last = take(told, total);
    if (WIFSIGNALED(status))
      total.failures.push_back({last, "the simulation died of signal " + std::to_string(WTERMSIG(status))});
    else if (WEXITSTATUS(status) != 0)
      total.failures.push_back(
          {last, "the simulation ended with status " + std::to_string(WEXITSTATUS(status))});
  }
  std::sort(total.failures.begin(), total.failures.end(),
            [](const auto& one, const auto& other) { return one.seed < other.seed; });
  return total;
}

} // namespace troupe::simulation
