#include "actors/transport/fabric/ucx_peer.hpp"

#include <algorithm>

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

void ucx_peer::piece_arrived() {
  ++bulk.pieces_arrived;
  signals.pieces_moved = true;
}

bool ucx_peer::pieces_received(std::uint64_t count) {
  if (count > bulk.pieces_sent)
    return false;
  // Acknowledgements may overtake one another.
  if (count > bulk.pieces_received) {
    bulk.pieces_received = count;
    signals.pieces_moved = true;
    const auto now = clock::now();
    bulk.pause_until =
        now + std::min<clock::duration>(bulk_pause_factor * (now - bulk.last_sent), longest_pause);
  }
  return true;
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
