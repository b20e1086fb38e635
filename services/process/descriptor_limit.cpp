#include "services/process/descriptor_limit.hpp"

#include <limits>

#include <sys/resource.h>

namespace troupe {

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return std::numeric_limits<std::size_t>::max();
  }
  if (limit.rlim_cur != limit.rlim_max) {
    rlimit wanted = limit;
    wanted.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) {
      limit = wanted;
    }
  }
  return limit.rlim_cur;
}

} // namespace troupe
