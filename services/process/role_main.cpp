#include "services/process/role_main.hpp"

#include <cstdio>
#include <exception>

#include "services/options/option_parser.hpp"
#include "services/process/descriptor_limit.hpp"
#include "services/process/stop_signal.hpp"

namespace troupe {

int role_main(const std::string& program, int argc, char** argv,
              const std::function<int(const std::vector<std::string>&)>& body) {
  raise_descriptor_limit();
  try {
    return body({argv + 1, argv + argc});
  } catch (const option_error& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what());
    return 2;
  } catch (const interrupted& stopped) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), stopped.what());
    return 0; // as told
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what());
    return 1;
  }
}

} // namespace troupe
