// Gives the actor system its node id. CAF 0.17.6 declares the friend class `caf::net::middleman` and reserves
// a module slot for it, but ships no definition; ours is legitimate and is the only way to set
// `actor_system::node()` without CAF's own networking. Without it every process has the same, invalid node id
// and one death looks like all.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/detail/type_list.hpp>
#include <caf/string_view.hpp>

namespace troupe {

/// A number in an actor system's configuration. With it, a simulated process has the same node id in every
/// run; without it, node ids are random.
inline constexpr caf::string_view simulated_node_key = "transport.simulated-node";

} // namespace troupe

namespace caf::net {

class middleman : public actor_system::module {
 public:
  explicit middleman(actor_system& sys) : system_(sys) {}

  static actor_system::module* make(actor_system& sys, detail::type_list<>);

  void init(actor_system_config& cfg) override;

  void start() override {}

  void stop() override {}

  id_t id() const override { return actor_system::module::network_manager; }

  void* subtype_ptr() override { return this; }

 private:
  actor_system& system_;
};

} // namespace caf::net
