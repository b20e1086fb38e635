// The interface of the DIRECTORY actor, which finds actors at other endpoints.
#pragma once

#include <string>

#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

namespace troupe {

/// The DIRECTORY interface.
using directory_actor = caf::typed_actor<
    // Connects to the endpoint if needed, and answers with the actor published there under the name; an empty
    // endpoint is this process. Fails with ec::peer_down within defaults::connect_timeout.
    caf::replies_to<caf::resolve_atom, std::string /* endpoint */,
                    std::string /* service */>::with<caf::strong_actor_ptr>>;

} // namespace troupe
