// Carries payloads past CAF's serializers: what they meet goes beside the metadata instead of into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <caf/byte.hpp>
#include <caf/scoped_execution_unit.hpp>
#include <caf/span.hpp>

#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// Payloads of one message lie one after another, each padded to this many bytes, so that each arrives
/// aligned.
inline constexpr std::size_t payload_alignment = 64;

constexpr std::uint64_t align_payload(std::uint64_t num_bytes) {
  return (num_bytes + payload_alignment - 1) & ~std::uint64_t{payload_alignment - 1};
}

/// The same bytes, as CAF's deserializers want them.
inline caf::span<const caf::byte> as_caf_span(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const caf::byte*>(bytes.data()), bytes.size()};
}

/// Execution unit handed to a serializer or deserializer; `inspect` of a payload finds it by `dynamic_cast`.
class wire_context : public caf::scoped_execution_unit {
 public:
  using caf::scoped_execution_unit::scoped_execution_unit;

  /// Serialising: remembers `x` to be sent out of band.
  void attach(const payload& x) { attached_.push_back(x); }

  /// What was attached, in order.
  std::vector<payload>& attached() { return attached_; }

  /// Deserialising: the bytes that arrived beside the metadata.
  void arrived(payload bytes) { arrived_ = std::move(bytes); }

  /// Deserialising: cuts the next `num_bytes` off the arrived bytes. False when there are fewer.
  bool detach(std::uint64_t num_bytes, payload& result) {
    if (position_ > arrived_.size() || num_bytes > arrived_.size() - position_)
      return false;
    result = arrived_.slice(position_, num_bytes);
    position_ += align_payload(num_bytes);
    return true;
  }

 private:
  std::vector<payload> attached_;
  payload arrived_;
  std::uint64_t position_ = 0;
};

} // namespace troupe
