// Owned memory for weights, caches and scratch.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// Owns zero-filled host memory, 64-byte aligned. From 64 KiB up it requests huge pages, and takes at most a
/// sixteenth more than its size: a buffer that would waste more of its pages shares them with others.
/// Move-only. The first writer of a page is the first to touch it.
class buffer {
 public:
  buffer() = default;

  /// @throws std::bad_alloc
  explicit buffer(std::size_t num_bytes);
  buffer(buffer&& other) noexcept;
  buffer& operator=(buffer&& other) noexcept;
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer();

  std::byte* data() { return data_; }

  const std::byte* data() const { return data_; }

  std::size_t size() const { return size_; }

  std::span<std::byte> bytes() { return {data_, size_}; }

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Rows that own their memory; rows start 64-byte aligned (`row_stride` is padded).
class tensor {
 public:
  tensor() = default;

  /// Zero-filled [rows, cols] of `type` (f32, bf16 or f16).
  /// @throws std::bad_alloc
  tensor(dtype type, std::size_t rows, std::size_t cols);

  tensor_view view() { return view_; }

  const_tensor_view view() const { return view_; }

  /// The first `rows` rows.
  tensor_view first(std::size_t rows) { return view_.slice(0, rows); }

 private:
  buffer storage_;
  tensor_view view_;
};

} // namespace troupe::kernels
