#include "services/process/role_main.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

#include "services/options/option_parser.hpp"
#include "services/process/descriptor_limit.hpp"
#include "services/process/process_log.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

namespace {

/// A sentence for people at a terminal, unless the log is for machines.
void tell(const std::string& program, std::string_view event, const char* what) {
  if (configured_log_format() == log_format::json) {
    process_log(program).line(event, what);
  } else {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), what);
  }
}

} // namespace

int role_main(const std::string& program, int argc, char** argv,
              const std::function<int(const std::vector<std::string>&)>& body) {
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
    return 0; // as told
  } catch (const std::exception& error) {
    tell(program, "failed", error.what());
    return 1;
  }
}

} // namespace troupe
