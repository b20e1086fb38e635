// What an actor of another process looks like in this one.
#pragma once

#include <memory>

#include <caf/actor_proxy.hpp>

#include "actors/transport/caf/transport_core.hpp"

namespace troupe {

class proxy : public caf::actor_proxy {
 public:
  proxy(caf::actor_config& cfg, std::shared_ptr<transport::core> owner, wire::peer_connection_ptr peer);

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;
  bool add_backlink(caf::abstract_actor* other) override;
  bool remove_backlink(caf::abstract_actor* other) override;
  void kill_proxy(caf::execution_unit* host, caf::error reason) override;
  const char* name() const override;

 private:
  const std::shared_ptr<transport::core> owner_;
  const wire::peer_connection_ptr peer_;
};

} // namespace troupe
