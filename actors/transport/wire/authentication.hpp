// Hashes, and proof that a peer knows the cluster's secret without showing it.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace troupe::wire {

/// SHA-256 and HMAC-SHA256 output.
using digest = std::array<std::byte, 32>;

/// A challenge: fresh random bytes for every handshake.
using nonce = std::array<std::byte, 32>;

/// HMAC-SHA256 of the concatenated `parts` under `key` (RFC 2104).
/// @errors throws `std::runtime_error` when the crypto library refuses
digest hmac_sha256(std::string_view key, std::initializer_list<std::span<const std::byte>> parts);

/// SHA-256.
digest sha256(std::span<const std::byte> bytes);

/// Compares in a time that does not depend on where the digests differ.
bool equal_digests(const digest& lhs, const digest& rhs);

/// Random bytes fit for challenges.
/// @errors throws `std::runtime_error` when the system has none
void fill_random(std::span<std::byte> out);

} // namespace troupe::wire
