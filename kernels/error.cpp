#include "kernels/error.hpp"

#include <cstdio>
#include <cstdlib>

namespace troupe::kernels {

void fail(const char* what) noexcept {
  std::fprintf(stderr, "troupe kernels: %s\n", what);
  std::abort();
}

} // namespace troupe::kernels
