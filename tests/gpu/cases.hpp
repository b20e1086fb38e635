// The checks, one function a file.
#pragma once

#include "tests/gpu/check.hpp"

namespace troupe::gpu_check {

void check_few_rows(session& s);

} // namespace troupe::gpu_check
