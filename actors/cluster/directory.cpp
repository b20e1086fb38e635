#include "actors/cluster/directory.hpp"

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"

namespace troupe {

local_directory_actor::behavior_type
local_directory(local_directory_actor::stateful_pointer<local_directory_state> self) {
  return {
      [self](caf::publish_atom, const std::string& service, const caf::strong_actor_ptr& actor) {
        if (actor)
          self->state.services[service] = actor;
        else
          self->state.services.erase(service);
      },
      [self](caf::resolve_atom, const std::string&,
             const std::string& service) -> caf::result<caf::strong_actor_ptr> {
        auto found = self->state.services.find(service);
        if (found == self->state.services.end())
          return make_error(ec::peer_down, "no service '" + service + "' in this process");
        return found->second;
      },
  };
}

} // namespace troupe
