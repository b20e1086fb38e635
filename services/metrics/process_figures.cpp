#include "services/metrics/process_figures.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include <prometheus/gauge.h>

#include "services/options/option_parser.hpp"

namespace troupe::metrics {

namespace {

#ifdef __clang__
constexpr const char* compiler = "clang " __clang_version__;
#else
constexpr const char* compiler = "gcc " __VERSION__;
#endif

/// When the machine was started, in seconds since the epoch; 0 if unreadable.
double boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string word; in >> word;)
    if (double seconds = 0; word == "btime" && in >> seconds)
      return seconds;
  return 0;
}

double open_descriptors() {
  std::error_code error;
  std::filesystem::directory_iterator all("/proc/self/fd", error);
  if (error)
    return 0;
  double count = -1; // leaves out the one that reads the folder
  for (const auto end = std::filesystem::directory_iterator{}; all != end && !error; all.increment(error))
    ++count;
  return count;
}

} // namespace

process_figures read_process_figures() {
  process_figures result;
  std::ifstream in("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  // The second field is the program's name in parentheses, which may contain any character. See proc(5).
  const auto name_end = text.rfind(')');
  if (name_end != std::string::npos) {
    std::istringstream fields(text.substr(name_end + 1));
    std::string ignored;
    const auto skip = [&](int count) {
      for (int i = 0; i < count; ++i)
        fields >> ignored;
    };
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    double user = 0;
    double kernel = 0;
    double since_boot = 0;
    double resident_pages = 0;
    skip(11); // state ... cmajflt
    fields >> user >> kernel;
    skip(4); // cutime cstime priority nice
    fields >> result.threads;
    skip(1); // itrealvalue
    fields >> since_boot >> result.virtual_bytes >> resident_pages;
    if (fields) {
      result.cpu_seconds = (user + kernel) / ticks;
      result.resident_bytes = resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
      static const double booted = boot_time();
      result.start_time = booted + since_boot / ticks;
    }
  }
  result.open_fds = open_descriptors();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    result.max_fds = static_cast<double>(limit.rlim_cur);
  return result;
}

void show_load(registry& families, std::function<load_bytes()> load) {
  auto& loaded = families.gauge("weights_loaded_bytes");
  auto& total = families.gauge("weights_to_load_bytes");
  families.read_before_text([&loaded, &total, load = std::move(load)] {
    const auto now = load();
    loaded.Set(static_cast<double>(now.bytes));
    total.Set(static_cast<double>(now.total));
  });
}

void show_build(registry& families, const std::string& numerics) {
  families
      .gauge("build_info", {{"version", program_version()},
                            {"revision", TROUPE_REVISION},
                            {"compiler", compiler},
                            {"numerics", numerics.empty() ? "none" : numerics}})
      .Set(1);
}

std::shared_ptr<registry> make_registry(const std::string& prefix, const std::string& model_name) {
  auto families = std::make_shared<registry>(prefix, labels{{"model_name", model_name}});
  auto& cpu = families->counter("process_cpu_seconds_total");
  auto& resident = families->gauge("process_resident_memory_bytes");
  auto& virtual_memory = families->gauge("process_virtual_memory_bytes");
  auto& open_fds = families->gauge("process_open_fds");
  auto& max_fds = families->gauge("process_max_fds");
  auto& threads = families->gauge("process_threads");
  families->gauge("process_start_time_seconds").Set(read_process_figures().start_time);
  families->read_before_text([&cpu, &resident, &virtual_memory, &open_fds, &max_fds, &threads] {
    const process_figures now = read_process_figures();
    raise_to(cpu, now.cpu_seconds);
    resident.Set(now.resident_bytes);
    virtual_memory.Set(now.virtual_bytes);
    open_fds.Set(now.open_fds);
    max_fds.Set(now.max_fds);
    threads.Set(now.threads);
  });
  return families;
}

} // namespace troupe::metrics
