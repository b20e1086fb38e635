// What is on its way out, with everything UCX may still read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "actors/transport/fabric/ucx_fabric.hpp"

namespace troupe::wire {

/// A frame laid out for UCX.
struct outgoing_message {
  outgoing_message(ucx_peer_ptr peer, outgoing_frame what, std::size_t max_head_bytes);

  ucx_peer_ptr to;
  outgoing_frame frame;
  std::vector<io_part> parts;
  /// Header and metadata, or the header alone when the metadata rides in the data.
  std::size_t head_bytes = 0;
  /// Everything: what the message costs of the window.
  std::uint64_t num_bytes = 0;

  /// Takes the next bytes of the data out, at most `most`.
  std::vector<io_part> cut(std::uint64_t most);

  std::uint64_t rest_bytes() const { return num_bytes - head_bytes - cut_bytes_; }

  bool is_begun() const { return begun_; }

 private:
  std::size_t next_part_ = 0;
  std::uint64_t cut_bytes_ = 0;
  bool begun_ = false;
};

/// Goes out at once, whole.
struct ucx_fabric::send_operation : ucx_worker::operation, outgoing_message {
  send_operation(ucx_fabric& owner, ucx_peer_ptr peer, outgoing_frame what);

  void ended(bool success) override;

  ucx_fabric& owner_;
};

/// A piece of a message in the bulk lane. The first one takes the message's own head.
struct ucx_fabric::piece_operation : ucx_worker::operation {
  piece_operation(ucx_fabric& owner, std::shared_ptr<outgoing_message> what)
      : owner_(owner), whole(std::move(what)) {}

  void ended(bool success) override;

  ucx_fabric& owner_;
  std::shared_ptr<outgoing_message> whole;
  std::array<std::byte, frame_header_bytes> head;
  std::vector<io_part> parts;
};

} // namespace troupe::wire
