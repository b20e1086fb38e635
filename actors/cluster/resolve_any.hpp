// Finds a service that is published at one of several endpoints, as only the active one of several schedulers
// does.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/error.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"

namespace troupe {

/// Asks the endpoints one after another, each once, and calls one of the two functions.
///
/// @param endpoints  empty: this process
/// @param first  index of the first to ask, modulo their number
/// @param found  called with the handle, which is not null, and the index of its endpoint
/// @param failed  called with the error of the last endpoint
template <class Self, class Found, class Failed>
void resolve_any(Self self, const directory_actor& directory, std::vector<std::string> endpoints,
                 const std::string& service, std::size_t first, Found found, Failed failed,
                 std::size_t num_asked = 0) {
  if (endpoints.empty())
    endpoints.emplace_back();
  const auto at = (first + num_asked) % endpoints.size();
  auto next = [=](const caf::error& error) mutable {
    if (num_asked + 1 < endpoints.size())
      resolve_any(self, directory, endpoints, service, first, found, failed, num_asked + 1);
    else
      failed(error);
  };
  self->request(directory, defaults::connect_timeout, caf::resolve_atom_v, endpoints[at], service)
      .then(
          [=](const caf::strong_actor_ptr& handle) mutable {
            if (handle)
              found(handle, at);
            else
              next(make_error(ec::peer_down, service + " is not published"));
          },
          next);
}

} // namespace troupe
