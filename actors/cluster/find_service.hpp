// Finds what lives beside the scheduler, wherever that is.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/defaults.hpp"
#include "actors/error.hpp"

namespace troupe {

/// Asks the directory for a service at one endpoint after another until one has it.
/// @param self       the actor that asks
/// @param endpoints  empty: inside this process
/// @param found      called with the caf::strong_actor_ptr of the service, never null
/// @param failed     called with the last endpoint's error when none has it; each endpoint has
///                   defaults::connect_timeout
template <class Self, class Found, class Failed>
void find_service(Self self, const directory_actor& directory, std::vector<std::string> endpoints,
                  const std::string& service, Found found, Failed failed) {
  if (endpoints.empty())
    endpoints.emplace_back();
  const auto endpoint = std::move(endpoints.front());
  endpoints.erase(endpoints.begin());
  auto missed = [self, directory, endpoints, service, found, failed](const caf::error& error) mutable {
    if (endpoints.empty())
      failed(error);
    else
      find_service(self, directory, std::move(endpoints), service, std::move(found), std::move(failed));
  };
  self->request(directory, defaults::connect_timeout, caf::resolve_atom_v, endpoint, service)
      .then(
          [found, missed](const caf::strong_actor_ptr& handle) mutable {
            if (handle)
              found(handle);
            else
              missed(make_error(ec::peer_down, "it is not there"));
          },
          missed);
}

} // namespace troupe
