// A working matrix whose number of rows changes from batch to batch.
#pragma once

#include <cstddef>

#include "kernels/buffer.hpp"

namespace troupe::kernels {

/// Keeps its memory when it shrinks. It may be wider than needed: use `columns`.
class growing_rows {
 public:
  /// Makes room for `rows` rows of `cols` elements; growing loses the content.
  /// @throws std::bad_alloc
  void reserve(dtype type, std::size_t rows, std::size_t cols);

  /// The first `n` rows, 64-byte aligned.
  tensor_view rows(std::size_t n) { return storage_.first(n); }

  const_tensor_view rows(std::size_t n) const { return storage_.view().slice(0, n); }

 private:
  tensor storage_;
};

} // namespace troupe::kernels
