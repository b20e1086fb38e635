#include "kernels/growing_rows.hpp"

#include <algorithm>

namespace troupe::kernels {

void growing_rows::reserve(dtype type, std::size_t rows, std::size_t cols) {
  const const_tensor_view have = storage_.view();
  if (have.data != nullptr && have.type == type && have.rows >= rows && have.cols >= cols)
    return;
  // Types seldom change. Rows grow by half more than requested, so that batches that grow row by row do not
  // allocate each time.
  const std::size_t more_rows = rows <= have.rows ? have.rows : std::max(rows, have.rows + have.rows / 2);
  storage_ = tensor(type, more_rows, std::max(cols, have.cols));
}

} // namespace troupe::kernels
