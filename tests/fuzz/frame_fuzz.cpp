// Hostile frames in UCX's form: 8 bytes give the length of the data part, the rest is the header part. A
// decoded frame must lie inside its bytes and be the only encoding of its header; the content of a message
// must be read or refused.
#include "actors/transport/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/message.hpp>

#include "actors/protocol/type_ids.hpp"
#include "actors/transport/wire/wire_context.hpp"
#include "actors/transport/wire/wire_deserializer.hpp"

namespace {

using namespace troupe;

constexpr std::uint64_t max_frame_bytes = std::uint64_t{1} << 20;

void require(bool holds) {
  if (!holds)
    std::abort();
}

struct cluster_config : caf::actor_system_config {
  cluster_config() {
    configure(*this);
    set("scheduler.max-threads", std::size_t{1});
  }
};

/// Processes a message's metadata like the transport.
void read_message(const wire::frame_header& header, std::span<const std::byte> metadata, payload data) {
  // Never destroyed: CAF's own globals are gone before ours at exit.
  static auto& system = *new caf::actor_system{*new cluster_config};
  wire_context context{&system};
  context.arrived(std::move(data));
  wire_deserializer source{&context, metadata};
  try {
    caf::node_id node;
    if ((header.flags & wire::foreign_source) != 0)
      if (source(node))
        return;
    std::vector<caf::strong_actor_ptr> stages;
    caf::message content;
    if (!source(stages)) [[maybe_unused]]
      const auto err = content.load(source);
  } catch (const std::exception&) { // the transport also refuses it this way
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t data_bytes = 0;
  if (size < sizeof data_bytes)
    return 0;
  const auto input = std::as_bytes(std::span{data, size});
  std::copy_n(data, sizeof data_bytes, reinterpret_cast<std::uint8_t*>(&data_bytes));
  const auto head = input.subspan(sizeof data_bytes);
  const auto frame = wire::decode_frame(head, data_bytes, max_frame_bytes);
  require(*wire::to_string(frame.error) != '\0');
  if (frame.error != wire::frame_error::none) {
    require(frame.metadata.empty());
    return 0;
  }
  // The metadata of a message in pieces may continue, too.
  const auto whole_bytes = data_bytes + frame.header.rest_bytes;
  require(head.size() + whole_bytes <= max_frame_bytes && frame.payload_offset <= whole_bytes);
  std::array<std::byte, wire::frame_header_bytes> again{};
  wire::encode_frame(frame.header, again);
  require(std::equal(again.begin(), again.end(), head.begin()));
  const bool in_data = (frame.header.flags & wire::metadata_in_data) != 0;
  if (in_data)
    require(frame.metadata.empty() && frame.header.metadata_bytes <= frame.payload_offset);
  else
    require(frame.metadata.data() == head.data() + wire::frame_header_bytes
            && frame.metadata.size() == frame.header.metadata_bytes && frame.payload_offset == 0);
  if (frame.header.kind == wire::frame_kind::message && !in_data)
    read_message(frame.header, frame.metadata, payload::allocate(data_bytes));
  return 0;
}
