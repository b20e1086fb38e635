// Names of what sequences begin with, from hashes of their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace troupe {

/// 128 bits of SHA-256: no client can make two beginnings with one name.
struct prefix_hash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const prefix_hash&) const = default;
};

/// The beginnings of a sequence, of `unit`, 2 · `unit`, … tokens: the name of each is the hash of the one
/// before and of the tokens that follow. Equal names mean equal tokens of the same model, with the same salt.
class prefix_chain {
 public:
  /// @param unit  at least 1
  prefix_chain(std::string_view fingerprint, std::string_view salt, std::uint32_t unit);

  /// Names what is new in `tokens`, which are all tokens of the sequence so far.
  void extend(std::span<const std::int32_t> tokens);

  /// Tokens of the longest beginning that has a name.
  std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(names_.size() - 1) * unit_; }

  /// The name of the first `num_tokens` tokens, a multiple of the unit that is not above `num_tokens()`.
  const prefix_hash& name_of(std::uint32_t num_tokens) const { return names_.at(num_tokens / unit_); }

 private:
  std::uint32_t unit_;
  std::vector<prefix_hash> names_; ///< the root first
};

/// Tokens that a name adds to the one before it, where all members of a cluster must agree.
inline constexpr std::uint32_t prefix_unit = 16;

/// Is a beginning of so many tokens one of those by which workers are compared? Eight between a power of two
/// and the next, so that a prompt of 100,000 tokens has some 90.
/// @param num_tokens  a multiple of `unit`
bool is_prefix_landmark(std::uint32_t num_tokens, std::uint32_t unit);

} // namespace troupe
