#include "services/startup/descriptor_limit.hpp"

#include <algorithm>
#include <limits>

#include <sys/resource.h>

namespace troupe {

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return std::numeric_limits<std::size_t>::max();
  if (limit.rlim_cur != limit.rlim_max) {
    rlimit wanted = limit;
    wanted.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0)
      limit = wanted;
  }
  return limit.rlim_cur;
}

std::size_t connections_that_fit(std::size_t wanted, std::size_t limit) noexcept {
  constexpr std::size_t for_the_rest = 256;
  std::size_t fit = limit > 2 * for_the_rest ? limit - for_the_rest : std::max<std::size_t>(1, limit / 2);
  return std::min(wanted, fit);
}

} // namespace troupe
