#include "services/timeline/trace_format.hpp"

#include <array>
#include <chrono>
#include <fstream>
#include <stdexcept>

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace troupe {

namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The kernel's id of this boot, and the offset that the time namespace adds to its clock.
std::string clock_name() {
  return first_line("/proc/sys/kernel/random/boot_id") + " " + first_line("/proc/self/timens_offsets");
}

template <class Clock>
std::uint64_t ns_now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

} // namespace

std::string to_json(const traced_process& process) {
  const nlohmann::ordered_json all{{"process", process.name},        {"pid", process.pid},
                                   {"host", process.host},           {"clock", process.clock},
                                   {"steady_ns", process.steady_ns}, {"unix_ns", process.unix_ns}};
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

traced_process process_from_json(const std::string& text) {
  traced_process result;
  try {
    const auto all = nlohmann::json::parse(text);
    result.name = all.at("process").get<std::string>();
    result.pid = all.at("pid").get<std::int64_t>();
    result.host = all.at("host").get<std::string>();
    result.clock = all.at("clock").get<std::string>();
    result.steady_ns = all.at("steady_ns").get<std::uint64_t>();
    result.unix_ns = all.at("unix_ns").get<std::uint64_t>();
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string{"its head is damaged: "} + error.what());
  }
  return result;
}

traced_process this_process(const std::string& name) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  traced_process result{name, getpid(), host.data(), clock_name(), 0, 0};
  result.steady_ns = ns_now<std::chrono::steady_clock>();
  result.unix_ns = ns_now<std::chrono::system_clock>();
  return result;
}

} // namespace troupe
