#include "actors/transport/fabric/fabric.hpp"

namespace troupe::wire {

peer_connection::~peer_connection() = default;

fabric::listener::~listener() = default;

fabric::~fabric() = default;

fabric_maker::~fabric_maker() = default;

} // namespace troupe::wire
