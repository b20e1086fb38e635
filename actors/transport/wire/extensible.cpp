#include "actors/transport/wire/extensible.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include <caf/sec.hpp>

namespace troupe::wire {

namespace {

#ifdef TROUPE_NEXT_VERSION
// The release after this one, as tests/system/rolling_upgrade_test.py runs it, has one more field in every
// structure.
constexpr std::uint32_t field_of_next_version = 0x6E657874;
#endif

caf::binary_serializer& binary(caf::serializer& sink) {
  if (auto* result = dynamic_cast<caf::binary_serializer*>(&sink))
    return *result;
  throw std::logic_error("a structure with a length can be written by CAF's binary serializer only");
}

} // namespace

extensible_writer::extensible_writer(caf::serializer& sink) : sink_(binary(sink)), start_(sink_.write_pos()) {
  sink_.skip(sizeof(std::uint32_t));
}

caf::error extensible_writer::finish() {
#ifdef TROUPE_NEXT_VERSION
  auto field = field_of_next_version;
  if (auto err = sink_(field))
    return err;
#endif
  const auto end = sink_.write_pos();
  const auto length = end - start_ - sizeof(std::uint32_t);
  if (length > std::numeric_limits<std::uint32_t>::max())
    throw std::length_error("a structure of " + std::to_string(length) + " bytes is too long for a message");
  auto prefix = static_cast<std::uint32_t>(length);
  sink_.seek(start_);
  auto err = sink_(prefix);
  sink_.seek(end);
  return err;
}

extensible_reader::extensible_reader(caf::deserializer& source)
    : source_(source),
      wire_(dynamic_cast<wire_deserializer*>(&source)),
      binary_(wire_ ? nullptr : dynamic_cast<caf::binary_deserializer*>(&source)) {
  if (!wire_ && !binary_)
    throw std::logic_error("a structure with a length can be read from binary data only");
}

caf::error extensible_reader::begin() {
  std::uint32_t length = 0;
  if (auto err = source_(length))
    return err;
  if (length > remaining())
    return caf::sec::end_of_stream;
  end_ = remaining() - length;
  return caf::none;
}

caf::error extensible_reader::finish() {
#ifdef TROUPE_NEXT_VERSION
  if (has_more()) {
    std::uint32_t field = 0;
    if (auto err = source_(field))
      return err;
    if (field != field_of_next_version)
      return caf::sec::invalid_argument;
  }
#endif
  const auto unknown = remaining() - end_;
  if (wire_)
    wire_->skip(unknown);
  else
    binary_->skip(unknown);
  return caf::none;
}

} // namespace troupe::wire
