// Little-endian integers at any address: the byte order of everything this transport puts on a wire.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

namespace troupe::wire {

static_assert(std::endian::native == std::endian::little, "big-endian hosts need byte swaps here");

template <std::unsigned_integral T>
T load_little(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <std::unsigned_integral T>
void store_little(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

} // namespace troupe::wire
