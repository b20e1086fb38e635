#include "actors/transport/wire/frame.hpp"

#include "actors/transport/wire/byte_order.hpp"
#include "actors/transport/wire/wire_context.hpp"

namespace troupe::wire {

namespace {

constexpr std::uint16_t known_flags = metadata_in_data | foreign_source | bulk_lane;

} // namespace

const char* to_string(frame_error err) {
  switch (err) {
  case frame_error::none:
    return "none";
  case frame_error::truncated:
    return "truncated header";
  case frame_error::bad_magic:
    return "bad magic";
  case frame_error::bad_version:
    return "unknown frame version";
  case frame_error::unknown_kind:
    return "unknown frame kind";
  case frame_error::reserved_kind:
    return "frame kind is reserved and not supported";
  case frame_error::unknown_flags:
    return "unknown flags";
  case frame_error::bad_metadata_length:
    return "metadata length does not match the frame";
  case frame_error::bad_piece:
    return "not a piece of a message in the bulk lane";
  case frame_error::too_large:
    return "frame is too large";
  }
  return "invalid";
}

void encode_frame(const frame_header& header, std::span<std::byte, frame_header_bytes> out) {
  auto* to = out.data();
  store_little(to, frame_magic);
  store_little(to + 4, frame_version);
  store_little(to + 5, static_cast<std::uint8_t>(header.kind));
  store_little(to + 6, header.flags);
  store_little(to + 8, header.metadata_bytes);
  store_little(to + 12, std::uint32_t{0});
  to += 16;
  for (auto value : {header.token, header.sequence, header.source, header.destination, header.message_id,
                     header.acknowledged_frames, header.acknowledged_bytes, header.rest_bytes}) {
    store_little(to, value);
    to += sizeof(value);
  }
}

decoded_frame decode_frame(std::span<const std::byte> head, std::uint64_t data_bytes,
                           std::uint64_t max_bytes) {
  decoded_frame result;
  const auto fail = [&result](frame_error err) {
    result.error = err;
    return result;
  };
  if (head.size() < frame_header_bytes)
    return fail(frame_error::truncated);
  const auto* from = head.data();
  if (load_little<std::uint32_t>(from) != frame_magic)
    return fail(frame_error::bad_magic);
  if (load_little<std::uint8_t>(from + 4) != frame_version)
    return fail(frame_error::bad_version);
  auto& header = result.header;
  const auto kind = load_little<std::uint8_t>(from + 5);
  header.kind = static_cast<frame_kind>(kind);
  header.flags = load_little<std::uint16_t>(from + 6);
  header.metadata_bytes = load_little<std::uint32_t>(from + 8);
  const auto reserved = load_little<std::uint32_t>(from + 12);
  from += 16;
  for (auto* field :
       {&header.token, &header.sequence, &header.source, &header.destination, &header.message_id,
        &header.acknowledged_frames, &header.acknowledged_bytes, &header.rest_bytes}) {
    *field = load_little<std::uint64_t>(from);
    from += sizeof(*field);
  }
  if (kind < static_cast<std::uint8_t>(frame_kind::message)
      || kind > static_cast<std::uint8_t>(frame_kind::piece))
    return fail(frame_error::unknown_kind);
  if (header.kind == frame_kind::partial_sum_request || header.kind == frame_kind::partial_sum_reply)
    return fail(frame_error::reserved_kind);
  if ((header.flags & ~known_flags) != 0 || reserved != 0)
    return fail(frame_error::unknown_flags);
  if (data_bytes > max_bytes || head.size() > max_bytes - data_bytes
      || header.rest_bytes > max_bytes - data_bytes - head.size())
    return fail(frame_error::too_large);
  const bool is_piece = header.kind == frame_kind::piece;
  if (is_piece || header.rest_bytes > 0) {
    // A message of which nothing has come has nothing to go on with.
    if (header.travels_in() != lane::bulk || data_bytes == 0
        || (is_piece ? (header.flags & metadata_in_data) != 0 || header.metadata_bytes > 0
                     : header.kind != frame_kind::message))
      return fail(frame_error::bad_piece);
  }
  if ((header.flags & metadata_in_data) != 0) {
    if (head.size() != frame_header_bytes
        || align_payload(header.metadata_bytes) > data_bytes + header.rest_bytes)
      return fail(frame_error::bad_metadata_length);
    result.payload_offset = align_payload(header.metadata_bytes);
    return result;
  }
  if (head.size() - frame_header_bytes != header.metadata_bytes)
    return fail(frame_error::bad_metadata_length);
  result.metadata = head.subspan(frame_header_bytes);
  return result;
}

} // namespace troupe::wire
