// Records on the rendezvous socket: a fixed head and a bounded body. Before, during and after the handshake
// alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::wire {

inline constexpr std::uint32_t record_magic = 0x48505254; // "TRPH", little-endian

enum class record_type : std::uint8_t {
  /// Client: a nonce.
  hello = 1,
  /// Server: a nonce.
  challenge = 2,
  /// Either: a digest and an introduction.
  proof = 3,
  /// Server: a digest and the reason why it says no.
  refusal = 4,
  /// Either, once connected: alive, with the acknowledgement counters.
  heartbeat = 5,
};

/// Magic, newest protocol version of the sender, type, how many older versions it speaks as well, length of
/// the body. This and the types stay as they are in all versions.
inline constexpr std::size_t record_head_bytes = 4 + 2 + 1 + 1 + 4;

/// Worker addresses with many devices take a few KiB; nothing legitimate comes near this.
inline constexpr std::size_t max_record_body = std::size_t{64} << 10;

struct record {
  record_type type = record_type::hello;
  std::vector<std::byte> body;
};

/// Cuts a byte stream into records. Holds at most one record's bytes beyond what `next` has handed out.
class record_reader {
 public:
  /// Takes bytes as they come. False, with `error()` set, when they are not records, or their sender and this
  /// process have no version of the protocol in common.
  bool feed(std::span<const std::byte> bytes);

  /// The next complete record.
  std::optional<record> next();

  /// Why the stream is not one of records, or empty.
  const std::string& error() const { return error_; }

 private:
  bool check_head();

  std::vector<std::byte> buffer_;
  std::size_t position_ = 0;
  std::string error_;
};

/// Encodes one record.
std::vector<std::byte> encode_record(record_type type, std::span<const std::byte> body);

/// Appends integers and length-prefixed bytes.
class byte_writer {
 public:
  void put8(std::uint8_t value);
  void put16(std::uint16_t value);
  void put64(std::uint64_t value);
  void put_raw(std::span<const std::byte> bytes);
  /// At most 65,535 bytes, behind a 16-bit length.
  /// @errors throws `std::length_error` for more
  void put_string(std::string_view text);

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads what `byte_writer` wrote, from untrusted bytes. After the first failure each further read fails.
class byte_parser {
 public:
  explicit byte_parser(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint8_t take8();
  std::uint16_t take16();
  std::uint64_t take64();
  /// The next `num_bytes` bytes, or none of them.
  std::span<const std::byte> take_raw(std::size_t num_bytes);
  std::string take_string(std::size_t max_bytes);

  /// To be called when what was read makes no sense.
  void fail() { failed_ = true; }

  bool failed() const { return failed_; }

  /// Everything was read, and nothing is left.
  bool complete() const { return !failed_ && rest_.empty(); }

  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

} // namespace troupe::wire
