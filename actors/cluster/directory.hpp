// The DIRECTORY: turns "service S at endpoint E" into an actor handle. The transport implements it between
// processes; inside one process it is a table. Its users do not see the difference.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/directory_actor.hpp"

namespace troupe {

/// A directory of this process alone, which ignores endpoints.
/// @param services  name → actor; `publish_atom` adds more
using local_directory_actor = directory_actor::extend<
    // Publishes an actor under a name, replacing an earlier one. An empty handle withdraws the name.
    caf::reacts_to<caf::publish_atom, std::string, caf::strong_actor_ptr>>;

struct local_directory_state {
  static inline const char* name = "local_directory";
  std::map<std::string, caf::strong_actor_ptr> services;
};

local_directory_actor::behavior_type
local_directory(local_directory_actor::stateful_pointer<local_directory_state> self);

} // namespace troupe
