// Views of rows in borrowed memory, the arguments of every op.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"

namespace troupe::kernels {

/// Type of one element. `f16` is only read when weights are loaded; `int8` and `int4` name packed weights.
enum class dtype : std::uint8_t { f32 = 0, bf16 = 1, f16 = 2, int8 = 3, int4 = 4 };

/// Bits of one element of `type`.
constexpr std::size_t bits_of(dtype type) {
  switch (type) {
  case dtype::f32:
    return 32;
  case dtype::bf16:
  case dtype::f16:
    return 16;
  case dtype::int8:
    return 8;
  case dtype::int4:
    return 4;
  }
  return 0;
}

/// Bytes of `count` elements of `type`, rounded up to whole bytes.
constexpr std::size_t bytes_of(dtype type, std::size_t count) {
  return (bits_of(type) * count + 7) / 8;
}

/// "f32", "bf16", "f16", "int8" or "int4".
const char* name_of(dtype type);

/// Read-only rows: `rows` rows of `cols` elements, `row_stride` elements apart.
struct const_tensor_view {
  const std::byte* data = nullptr;
  dtype type = dtype::f32;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t row_stride = 0;

  const std::byte* row(std::size_t r) const { return data + bytes_of(type, row_stride) * r; }

  template <class T>
  const T* row_as(std::size_t r) const {
    return reinterpret_cast<const T*>(row(r));
  }

  /// Rows `first` to `first + count`.
  const_tensor_view slice(std::size_t first, std::size_t count) const {
    return {row(first), type, count, cols, row_stride};
  }

  /// Columns `first` to `first + count` of every row.
  const_tensor_view columns(std::size_t first, std::size_t count) const {
    return {data + bytes_of(type, first), type, rows, count, row_stride};
  }
};

/// Writable rows; converts to `const_tensor_view`.
struct tensor_view {
  std::byte* data = nullptr;
  dtype type = dtype::f32;
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::size_t row_stride = 0;

  std::byte* row(std::size_t r) const { return data + bytes_of(type, row_stride) * r; }

  template <class T>
  T* row_as(std::size_t r) const {
    return reinterpret_cast<T*>(row(r));
  }

  tensor_view slice(std::size_t first, std::size_t count) const {
    return {row(first), type, count, cols, row_stride};
  }

  tensor_view columns(std::size_t first, std::size_t count) const {
    return {data + bytes_of(type, first), type, rows, count, row_stride};
  }

  operator const_tensor_view() const { return {data, type, rows, cols, row_stride}; }
};

/// Views of dense host rows (`row_stride == cols`).
inline const_tensor_view view_of(const float* data, std::size_t rows, std::size_t cols) {
  return {reinterpret_cast<const std::byte*>(data), dtype::f32, rows, cols, cols};
}

inline tensor_view view_of(float* data, std::size_t rows, std::size_t cols) {
  return {reinterpret_cast<std::byte*>(data), dtype::f32, rows, cols, cols};
}

inline const_tensor_view view_of(const bfloat16* data, std::size_t rows, std::size_t cols) {
  return {reinterpret_cast<const std::byte*>(data), dtype::bf16, rows, cols, cols};
}

inline tensor_view view_of(bfloat16* data, std::size_t rows, std::size_t cols) {
  return {reinterpret_cast<std::byte*>(data), dtype::bf16, rows, cols, cols};
}

} // namespace troupe::kernels
