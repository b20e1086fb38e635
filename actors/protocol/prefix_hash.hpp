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
/// before and of the tokens that follow. Equal names mean equal tokens with the same salt. A cluster serves
/// one model, so that names from all its members can be compared.
class prefix_chain {
 public:
  /// @param unit  at least 1
  prefix_chain(std::string_view salt, std::uint32_t unit);

  /// Names what is new in `tokens`, which are all tokens of the sequence so far.
  void extend(std::span<const std::int32_t> tokens);

  /// Tokens of the longest beginning that has a name.
  std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(names_.size() - 1) * unit_; }

  std::uint32_t unit() const { return unit_; }

  /// The name of the first `num_tokens` tokens, a multiple of the unit that is not above `num_tokens()`.
  const prefix_hash& name_of(std::uint32_t num_tokens) const { return names_.at(num_tokens / unit_); }

 private:
  std::uint32_t unit_;
  std::vector<prefix_hash> names_; ///< the root first
};

/// Tokens that a name adds to the one before it, where all members of a cluster must agree.
inline constexpr std::uint32_t prefix_unit = 16;

/// A beginning by which the scheduler compares workers. It decides speed and never content, so 64 bits do.
struct prefix_landmark {
  std::uint64_t hash = 0;
  std::uint32_t num_tokens = 0;
  bool operator==(const prefix_landmark&) const = default;
};

/// Is a beginning of so many tokens a landmark? Those of four units are, and then four of each doubling: a
/// prompt of 100,000 tokens has 43.
/// @param num_tokens  a multiple of `unit`
bool is_prefix_landmark(std::uint32_t num_tokens, std::uint32_t unit);

/// The landmarks of a sequence, the shortest first.
std::vector<prefix_landmark> landmarks_of(const prefix_chain& chain);

} // namespace troupe
