// How the workers of a local cluster divide the memory limit of the cgroup that they share.
#pragma once

#include "services/model/model_source.hpp"
#include "services/troupe/up_flags.hpp"

namespace troupe {

/// Sets --kv-cache-memory and --expert-memory where they are not given: each worker alone would take what the
/// limit leaves for all of them.
/// @throws model::model_error  where the limit leaves too little for all experts
void share_memory(up_flags& flags, const model_source& source);

} // namespace troupe
