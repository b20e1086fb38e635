// The DIRECTORY: turns "service S at endpoint E" into an actor handle. Between processes the transport
// implements it; inside one process it is a table. No code above it knows which.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

namespace troupe {

/// The DIRECTORY interface.
using directory_actor = caf::typed_actor<
    // Connects to the endpoint where needed and answers with the actor published there under the name;
    // an empty endpoint is this process. Fails with ec::peer_down within defaults::connect_timeout.
    caf::replies_to<caf::resolve_atom, std::string /* endpoint */,
                    std::string /* service */>::with<caf::strong_actor_ptr>>;

/// A directory of this process alone: every endpoint means here.
/// @param services  name → actor; later ones are added with `publish_atom`
using local_directory_actor = directory_actor::extend<
    // Publishes an actor under a name; the newest wins. An empty handle withdraws the name.
    caf::reacts_to<caf::publish_atom, std::string, caf::strong_actor_ptr>>;

struct local_directory_state {
  static inline const char* name = "local_directory";
  std::map<std::string, caf::strong_actor_ptr> services;
};

local_directory_actor::behavior_type
local_directory(local_directory_actor::stateful_pointer<local_directory_state> self);

} // namespace troupe
