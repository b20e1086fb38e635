#include "services/startup/role_main.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include <sys/resource.h>

#include "services/log/process_log.hpp"
#include "services/options/option_parser.hpp"
#include "services/options/standard_streams.hpp"
#include "services/startup/descriptor_limit.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

namespace {

/// Prints a sentence for people, or a log line where the log format is JSON.
void tell(const std::string& program, std::string_view event, const char* what) {
  if (configured_log_format() == log_format::json)
    process_log(program).line(event, what);
  else
    std::fprintf(stderr, "%s: %s\n", program.c_str(), what);
}

/// The explanation of std::bad_alloc for operators.
std::string no_memory_text() {
  rlimit space{};
  getrlimit(RLIMIT_AS, &space);
  const std::string limit =
      space.rlim_cur == RLIM_INFINITY
          ? "this machine gives no more"
          : "its address space may have " + std::to_string(space.rlim_cur >> 20U) + " MiB (ulimit -v)";
  return "not enough memory: " + limit
         + "; --kv-cache-memory and --expert-memory make what is kept for sequences and experts smaller";
}

} // namespace

int role_main(const std::string& program, int argc, char** argv,
              const std::function<int(const std::vector<std::string>&)>& body) {
  open_standard_streams();
  raise_descriptor_limit();
  try {
    return body({argv + 1, argv + argc});
  } catch (const option_error& error) {
    tell(program, "failed", error.what());
    return 2;
  } catch (const description_answer& asked) {
    std::printf("%s\n", to_json(asked.what).c_str());
    return 0;
  } catch (const interrupted& stopped) {
    tell(program, "stopping", stopped.what());
    return 0;
  } catch (const std::bad_alloc&) {
    tell(program, "failed", no_memory_text().c_str());
    return 1;
  } catch (const std::exception& error) {
    tell(program, "failed", error.what());
    return 1;
  }
}

} // namespace troupe
