// Rows of a working set whose number changes from batch to batch.
#pragma once

#include <cstddef>

#include "kernels/buffer.hpp"

namespace troupe::kernels {

/// A matrix that keeps its memory while it shrinks. It may be wider than somebody needs: take `columns`.
class growing_rows {
 public:
  /// Room for `rows` rows of `cols` elements; what was in it is lost where it has to grow.
  /// @errors std::bad_alloc
  void reserve(dtype type, std::size_t rows, std::size_t cols);

  /// The first `n` rows, 64-byte aligned.
  tensor_view rows(std::size_t n) { return storage_.first(n); }

  const_tensor_view rows(std::size_t n) const { return storage_.view().slice(0, n); }

 private:
  tensor storage_;
};

} // namespace troupe::kernels
