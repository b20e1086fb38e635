// A frame on its way out, with everything UCX may still read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

struct ucx_fabric::send_operation : ucx_worker::operation {
  send_operation(ucx_fabric& owner, ucx_peer_ptr peer, outgoing_frame what);

  void ended(bool success) override;

  ucx_fabric& owner_;
  ucx_peer_ptr to;
  outgoing_frame frame;
  std::vector<io_part> parts;
  /// Header and metadata, or the header alone when the metadata rides in the data.
  std::size_t head_bytes = 0;
  /// Everything: what the frame costs of the window.
  std::uint64_t num_bytes = 0;
};

} // namespace troupe::wire
