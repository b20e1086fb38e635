// Reads messages that another process sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include <caf/binary_deserializer.hpp>
#include <caf/deserializer.hpp>

namespace troupe {

/// What arrived is not what any sender writes.
struct malformed_message : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// CAF's binary format with an end to everything: CAF 0.17 believes the length of a sequence, and goes on
/// with the next element of a `std::vector<message>` when one could not be read, so that a hundred bytes make
/// billions of them. Here whatever cannot be read is an exception, which nothing ignores.
class wire_deserializer final : public caf::deserializer {
 public:
  /// Sequences and messages inside of one another (an error's context is a message): reading them recurs.
  static constexpr std::size_t max_depth = 16;

  wire_deserializer(caf::execution_unit* context, std::span<const std::byte> bytes);

  std::size_t remaining() const noexcept { return source_.remaining(); }

  /// Leaves out the next `num_bytes` bytes; there must be so many.
  void skip(std::size_t num_bytes) { source_.skip(num_bytes); }

  // Each throws malformed_message where CAF's returns an error.

  caf::error begin_object(std::uint16_t& number, std::string& name) override;
  caf::error end_object() override;
  /// A sequence has at most eight elements for each byte that is left: CAF packs eight booleans into one. (It
  /// never ends a std::vector<bool>, so each counts as one level from then on; no message of ours has any.)
  caf::error begin_sequence(std::size_t& size) override;
  caf::error end_sequence() override;
  caf::error apply_raw(std::size_t num_bytes, void* data) override;

 protected:
  caf::error apply_impl(std::int8_t& x) override;
  caf::error apply_impl(std::uint8_t& x) override;
  caf::error apply_impl(std::int16_t& x) override;
  caf::error apply_impl(std::uint16_t& x) override;
  caf::error apply_impl(std::int32_t& x) override;
  caf::error apply_impl(std::uint32_t& x) override;
  caf::error apply_impl(std::int64_t& x) override;
  caf::error apply_impl(std::uint64_t& x) override;
  caf::error apply_impl(float& x) override;
  caf::error apply_impl(double& x) override;
  caf::error apply_impl(long double& x) override;
  caf::error apply_impl(std::string& x) override;
  caf::error apply_impl(std::u16string& x) override;
  caf::error apply_impl(std::u32string& x) override;

 private:
  void go_deeper();

  caf::binary_deserializer source_;
  std::size_t depth_ = 0;
};

} // namespace troupe
