#include "actors/transport/caf/node_module.hpp"

#include <cstdint>
#include <span>

#include <caf/actor_system_config.hpp>
#include <caf/node_id.hpp>
#include <unistd.h>

#include "actors/transport/wire/authentication.hpp"

namespace caf::net {

actor_system::module* middleman::make(actor_system& sys, detail::type_list<>) {
  return new middleman(sys);
}

void middleman::init(actor_system_config& config) {
  if (const auto number = get_if<std::int64_t>(&config, troupe::simulated_node_key)) {
    auto named = make_node_id(static_cast<std::uint32_t>(*number), node_id::default_data::host_id_type{1});
    system_.node_.swap(named);
    return;
  }
  // Process ids repeat (every container has a process 1), random bytes do not.
  node_id::default_data::host_id_type host{};
  troupe::wire::fill_random(std::as_writable_bytes(std::span{host}));
  // All zeros would be the invalid node.
  host[0] = static_cast<std::uint8_t>(host[0] | 1U);
  auto fresh = make_node_id(static_cast<std::uint32_t>(getpid()), host);
  system_.node_.swap(fresh);
}

} // namespace caf::net
