// The bytes that ride beside an actor message: tensors, weights, KV blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <caf/fwd.hpp>
#include <caf/type_id.hpp>

#include "actors/transport/wire/buffer.hpp"

namespace troupe {

/// A slice of a reference-counted, pooled, 64-byte aligned buffer.
///
/// Copies share the bytes. Within a process a payload travels by pointer. Between processes it travels out of
/// band, without a copy on the sender, and arrives in a pooled buffer; every payload of a message starts
/// 64-byte aligned. Serialised outside the transport (a file, a test) it is written in line.
class payload {
 public:
  payload() = default;

  /// Takes `num_bytes` uninitialised bytes from the pool. Zero bytes need no buffer.
  /// @errors throws `std::bad_alloc`
  static payload allocate(std::size_t num_bytes);

  /// Copies `bytes` into a fresh buffer.
  static payload copy_of(std::span<const std::byte> bytes);

  /// Wraps `length` bytes of `memory` from `offset`. The range must lie inside it.
  payload(buffer_ptr memory, std::size_t offset, std::size_t length);

  std::size_t size() const { return length_; }

  bool empty() const { return length_ == 0; }

  /// The first byte, or null when empty.
  const std::byte* data() const { return memory_ ? memory_->data() + offset_ : nullptr; }

  std::span<const std::byte> bytes() const { return {data(), length_}; }

  /// Bytes to write to. Copies them first if the buffer has other holders, so that these keep the old bytes.
  std::byte* mutable_data();

  /// `length` bytes from `offset`, sharing the buffer.
  /// @errors throws `std::out_of_range` when the range does not lie inside this payload
  payload slice(std::size_t offset, std::size_t length) const;

  /// The buffer underneath, null when empty.
  const buffer_ptr& memory() const { return memory_; }

  /// Where this payload starts in `memory()`.
  std::size_t offset() const { return offset_; }

  /// Equal contents, wherever they are.
  friend bool operator==(const payload& lhs, const payload& rhs);

 private:
  buffer_ptr memory_;
  std::size_t offset_ = 0;
  std::size_t length_ = 0;
};

caf::error inspect(caf::serializer& sink, const payload& x);
caf::error inspect(caf::deserializer& source, payload& x);
std::string to_string(const payload& x);

} // namespace troupe

/// Type ids of the transport: `caf::first_custom_type_id` up to, not including, `troupe_transport_end`. The
/// block reserves room to grow; the next block starts at
/// `troupe::transport_type_ids_end`.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_transport, caf::first_custom_type_id)

  CAF_ADD_TYPE_ID(troupe_transport, (troupe::payload))

CAF_END_TYPE_ID_BLOCK(troupe_transport)

namespace troupe {

/// First type id that the next block may use: `CAF_BEGIN_TYPE_ID_BLOCK(NAME,
/// troupe::transport_type_ids_end)`.
inline constexpr caf::type_id_t transport_type_ids_end = caf::first_custom_type_id + 20;

static_assert(caf::id_block::troupe_transport::end <= transport_type_ids_end);

} // namespace troupe
