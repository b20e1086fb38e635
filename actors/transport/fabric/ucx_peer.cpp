#include "actors/transport/fabric/ucx_peer.hpp"

namespace troupe::wire {

void arrival_slot::ended(bool success) {
  complete = true;
  intact = intact && success;
  from->signals.fetched = true;
  if (!success)
    from->doom("the data of a frame could not be fetched");
  // May be the last reference.
  const auto last = std::move(self);
}

void ucx_peer::endpoint_failed(const char* why) {
  doom(std::string{"UCX: "} + why);
}

void ucx_peer::doom(std::string why) {
  if (failure.empty())
    failure = std::move(why);
  signals.broken = true;
}

} // namespace troupe::wire
