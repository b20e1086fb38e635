#include "actors/transport/wire/wire_deserializer.hpp"

#include "actors/transport/wire/wire_context.hpp"

namespace troupe {

namespace {

caf::error checked(const caf::error& err) {
  if (err)
    throw malformed_message("a message ends before its content");
  return caf::none;
}

} // namespace

wire_deserializer::wire_deserializer(caf::execution_unit* context, std::span<const std::byte> bytes)
    : caf::deserializer(context), source_(context, as_caf_span(bytes)) {}

void wire_deserializer::go_deeper() {
  if (++depth_ > max_depth)
    throw malformed_message("sequences or messages lie deeper in one another than any sender puts them");
}

caf::error wire_deserializer::begin_object(std::uint16_t& number, std::string& name) {
  go_deeper();
  checked(source_.begin_object(number, name));
  if (name == "@<>")
    --depth_; // an empty message, which CAF does not end
  return caf::none;
}

caf::error wire_deserializer::end_object() {
  --depth_;
  return caf::none;
}

caf::error wire_deserializer::begin_sequence(std::size_t& size) {
  checked(source_.begin_sequence(size));
  if (size / 8 > remaining())
    throw malformed_message("a sequence is longer than its message");
  go_deeper();
  return caf::none;
}

caf::error wire_deserializer::end_sequence() {
  --depth_;
  return caf::none;
}

caf::error wire_deserializer::apply_raw(std::size_t num_bytes, void* data) {
  return checked(source_.apply_raw(num_bytes, data));
}

caf::error wire_deserializer::apply_impl(std::int8_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::uint8_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::int16_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::uint16_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::int32_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::uint32_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::int64_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::uint64_t& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(float& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(double& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(long double& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::string& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::u16string& x) {
  return checked(source_.apply(x));
}

caf::error wire_deserializer::apply_impl(std::u32string& x) {
  return checked(source_.apply(x));
}

} // namespace troupe
