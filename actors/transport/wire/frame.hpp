// The layout of a frame between two peers, and the one function that reads a frame from untrusted bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::wire {

/// What a frame is for. Values are part of the protocol: append only.
enum class frame_kind : std::uint8_t {
  /// An actor message: stages and content as metadata, payloads as data.
  message = 1,
  /// Asks for the actor published under a name (metadata); `message_id` comes back in the answer.
  resolve = 2,
  /// Answer to `resolve`: `source` is the actor, 0 when there is none.
  resolved = 3,
  /// Asks for a `down` when the local actor `destination` ends.
  monitor = 4,
  /// The actor `source` has ended; metadata is the reason.
  down = 5,
  /// The actor `source` has linked itself to the local actor `destination`.
  link = 6,
  unlink = 7,
  /// Carries nothing but the acknowledgement counters.
  acknowledge = 8,
  /// Reserved for expert workers that sum over their experts before they answer (gives up bitwise equality,
  /// off).
  partial_sum_request = 9,
  partial_sum_reply = 10,
  /// The next piece of the data of the message before it in the bulk lane.
  piece = 11,
};

/// Bits of `frame_header::flags`. Unknown bits are refused.
enum frame_flags : std::uint16_t {
  /// Metadata was too large for the header part and stands at the front of the data, padded to 64 bytes.
  metadata_in_data = 1,
  /// Metadata starts with the node of `source`, which is neither peer (a delegated request).
  foreign_source = 2,
  /// The frame travels in the bulk lane; without it in the urgent one.
  bulk_lane = 4,
};

/// Each lane of a connection has an order and a window of its own, so that nothing in the urgent lane waits
/// for what is in the bulk lane. What goes where: `transport_options::is_bulk`.
enum class lane : std::uint8_t { urgent, bulk };

inline constexpr std::size_t num_lanes = 2;

inline constexpr std::uint32_t frame_magic = 0x46505254; // "TRPF", little-endian
inline constexpr std::uint8_t frame_version = 2;

/// Fixed part of every frame; on the wire little-endian, without padding, in this order.
struct frame_header {
  frame_kind kind = frame_kind::acknowledge;
  std::uint16_t flags = 0;
  /// Bytes of metadata behind the header (or at the front of the data).
  std::uint32_t metadata_bytes = 0;
  /// Name that the receiver gave this connection: it finds the peer and fences off frames of older
  /// connections.
  std::uint64_t token = 0;
  /// Counts the frames of the lane in one direction from 0; frames of a lane are delivered in this order.
  std::uint64_t sequence = 0;
  /// Actor ids; 0: none.
  std::uint64_t source = 0;
  std::uint64_t destination = 0;
  /// CAF's message id (request, response and priority bits included), or the id of a resolve. In an
  /// acknowledgement in the bulk lane: how many messages and pieces of that lane have arrived.
  std::uint64_t message_id = 0;
  /// How many messages of this lane, and bytes of them, the sender of this frame has handled so far, of those
  /// that its receiver has sent. The pieces of a message are part of it.
  std::uint64_t acknowledged_frames = 0;
  std::uint64_t acknowledged_bytes = 0;
  /// Bytes of the message's data that follow in pieces; only in the bulk lane.
  std::uint64_t rest_bytes = 0;

  lane travels_in() const { return (flags & bulk_lane) != 0 ? lane::bulk : lane::urgent; }

  friend bool operator==(const frame_header&, const frame_header&) = default;
};

/// Bytes of an encoded header.
inline constexpr std::size_t frame_header_bytes = 4 + 1 + 1 + 2 + 4 + 4 + 8 * 8;

enum class frame_error : std::uint8_t {
  none,
  truncated,
  bad_magic,
  bad_version,
  unknown_kind,
  reserved_kind,
  unknown_flags,
  bad_metadata_length,
  bad_piece,
  too_large,
};

/// A short, stable English name, for the log line that explains a dropped peer.
const char* to_string(frame_error err);

/// Writes `header` into the first `frame_header_bytes` bytes of `out`.
void encode_frame(const frame_header& header, std::span<std::byte, frame_header_bytes> out);

struct decoded_frame {
  frame_error error = frame_error::none;
  /// Filled as far as the fixed part is there and has this version, so that even a bad frame can be laid at
  /// its sender's door.
  frame_header header;
  /// Metadata when it rides behind the header; empty when it stands in the data.
  std::span<const std::byte> metadata;
  /// Where the payloads start in the data: 0, or behind metadata that stands there.
  std::uint64_t payload_offset = 0;
};

/// Reads a frame. A pure function of its arguments: whatever the bytes, it reads only them and reports what
/// is wrong.
///
/// @param head        header part as it arrived: the fixed header and, usually, the metadata
/// @param data_bytes  length of the data part, which is not read
/// @param max_bytes   largest message to accept: header, data and what follows in pieces
decoded_frame decode_frame(std::span<const std::byte> head, std::uint64_t data_bytes,
                           std::uint64_t max_bytes);

} // namespace troupe::wire
