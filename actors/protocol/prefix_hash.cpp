#include "actors/protocol/prefix_hash.hpp"

#include <bit>
#include <cstring>

#include "actors/transport/wire/authentication.hpp"

namespace troupe {

namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
}

prefix_hash hash_of(std::span<const std::byte> bytes) {
  const auto digest = wire::sha256(bytes);
  const auto word = [&](std::size_t first) {
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < 8; ++i)
      result |= std::to_integer<std::uint64_t>(digest[first + i]) << (8 * i);
    return result;
  };
  return {word(0), word(8)};
}

} // namespace

prefix_chain::prefix_chain(std::string_view salt, std::uint32_t unit) : unit_(unit) {
  names_.push_back(hash_of(std::as_bytes(std::span{salt})));
}

void prefix_chain::extend(std::span<const std::int32_t> tokens) {
  std::vector<std::byte> bytes;
  for (auto first = std::size_t{num_tokens()}; first + unit_ <= tokens.size(); first += unit_) {
    bytes.clear();
    append(bytes, names_.back().high);
    append(bytes, names_.back().low);
    for (const auto token : tokens.subspan(first, unit_))
      append(bytes, static_cast<std::uint32_t>(token));
    names_.push_back(hash_of(bytes));
  }
}

bool is_prefix_landmark(std::uint32_t num_tokens, std::uint32_t unit) {
  const auto units = num_tokens / unit;
  return units >= 4 && units % (std::bit_floor(units) / 4) == 0;
}

std::vector<prefix_landmark> landmarks_of(const prefix_chain& chain) {
  std::vector<prefix_landmark> result;
  for (auto end = chain.unit(); end <= chain.num_tokens(); end += chain.unit())
    if (is_prefix_landmark(end, chain.unit()))
      result.push_back({chain.name_of(end).low, end});
  return result;
}

} // namespace troupe
