#include "actors/transport/wire/record.hpp"

#include <algorithm>
#include <stdexcept>

#include "actors/transport/wire/byte_order.hpp"
#include "actors/transport/wire/protocol_version.hpp"

namespace troupe::wire {

namespace {

/// The versions that the sender of a record speaks. `head` holds at least 8 bytes.
version_range versions_in(const std::byte* head) {
  const auto newest = load_little<std::uint16_t>(head + 4);
  const auto older = load_little<std::uint8_t>(head + 7);
  return {static_cast<std::uint16_t>(newest - std::min<std::uint16_t>(older, newest)), newest};
}

} // namespace

bool record_reader::feed(std::span<const std::byte> bytes) {
  if (!error_.empty())
    return false;
  if (position_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(position_));
    position_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return check_head();
}

bool record_reader::check_head() {
  const auto* from = buffer_.data() + position_;
  const auto available = buffer_.size() - position_;
  if (available >= 4 && load_little<std::uint32_t>(from) != record_magic)
    error_ = "not the rendezvous protocol";
  else if (available >= 8 && !versions_in(from).overlaps(protocol_versions()))
    error_ = "the peer speaks " + to_string(versions_in(from)) + " of the protocol, this process speaks "
             + to_string(protocol_versions()) + ": upgrade release by release, or all processes at once";
  else if (available >= record_head_bytes && load_little<std::uint32_t>(from + 8) > max_record_body)
    error_ = "a record of " + std::to_string(load_little<std::uint32_t>(from + 8)) + " bytes is too long";
  return error_.empty();
}

std::optional<record> record_reader::next() {
  const auto available = buffer_.size() - position_;
  if (!error_.empty() || available < record_head_bytes)
    return std::nullopt;
  const auto* from = buffer_.data() + position_;
  const std::size_t length = load_little<std::uint32_t>(from + 8);
  if (available - record_head_bytes < length)
    return std::nullopt;
  record result{static_cast<record_type>(load_little<std::uint8_t>(from + 6)),
                {from + record_head_bytes, from + record_head_bytes + length}};
  position_ += record_head_bytes + length;
  check_head();
  return result;
}

std::vector<std::byte> encode_record(record_type type, std::span<const std::byte> body) {
  if (body.size() > max_record_body)
    throw std::length_error("transport: record body is too long");
  std::vector<std::byte> result(record_head_bytes);
  store_little(result.data(), record_magic);
  const auto versions = protocol_versions();
  store_little(result.data() + 4, versions.newest);
  store_little(result.data() + 6, static_cast<std::uint8_t>(type));
  store_little(result.data() + 7, static_cast<std::uint8_t>(versions.newest - versions.oldest));
  store_little(result.data() + 8, static_cast<std::uint32_t>(body.size()));
  result.insert(result.end(), body.begin(), body.end());
  return result;
}

void byte_writer::put8(std::uint8_t value) {
  bytes_.push_back(static_cast<std::byte>(value));
}

void byte_writer::put16(std::uint16_t value) {
  bytes_.resize(bytes_.size() + sizeof(value));
  store_little(bytes_.data() + bytes_.size() - sizeof(value), value);
}

void byte_writer::put64(std::uint64_t value) {
  bytes_.resize(bytes_.size() + sizeof(value));
  store_little(bytes_.data() + bytes_.size() - sizeof(value), value);
}

void byte_writer::put_raw(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void byte_writer::put_string(std::string_view text) {
  if (text.size() > 0xFFFF)
    throw std::length_error("transport: field of " + std::to_string(text.size()) + " bytes is too long");
  put16(static_cast<std::uint16_t>(text.size()));
  put_raw(std::as_bytes(std::span{text}));
}

std::span<const std::byte> byte_parser::take_raw(std::size_t num_bytes) {
  if (failed_ || num_bytes > rest_.size()) {
    failed_ = true;
    return {};
  }
  const auto result = rest_.first(num_bytes);
  rest_ = rest_.subspan(num_bytes);
  return result;
}

std::uint8_t byte_parser::take8() {
  const auto raw = take_raw(1);
  return raw.empty() ? std::uint8_t{0} : load_little<std::uint8_t>(raw.data());
}

std::uint16_t byte_parser::take16() {
  const auto raw = take_raw(2);
  return raw.empty() ? std::uint16_t{0} : load_little<std::uint16_t>(raw.data());
}

std::uint64_t byte_parser::take64() {
  const auto raw = take_raw(8);
  return raw.empty() ? std::uint64_t{0} : load_little<std::uint64_t>(raw.data());
}

std::string byte_parser::take_string(std::size_t max_bytes) {
  const std::size_t length = take16();
  if (length > max_bytes)
    failed_ = true;
  const auto raw = take_raw(length);
  return {reinterpret_cast<const char*>(raw.data()), raw.size()};
}

} // namespace troupe::wire
