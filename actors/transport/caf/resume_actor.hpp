// One turn of an actor on a thread that is not the scheduler's.
#pragma once

#include <cstddef>

#include <caf/fwd.hpp>

namespace troupe {

/// Runs `job`, which was given to `exec_later`, over at most `max_messages`; what is left after those goes to
/// the scheduler. The reference that came with it is given back.
/// @param context  of the actor's system; is told which actors this one wakes
void resume_actor(caf::resumable* job, caf::execution_unit& context, std::size_t max_messages);

} // namespace troupe
