#include "services/options/standard_streams.hpp"

#include <fcntl.h>

namespace troupe {

void open_standard_streams() noexcept {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    if (fcntl(descriptor, F_GETFD) == -1)
      open("/dev/null", O_RDWR); // gets the lowest number that is free, which is this one
}

} // namespace troupe
