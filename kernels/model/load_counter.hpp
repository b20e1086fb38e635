// Counts what has been loaded of the attention side, and tells it.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/load_options.hpp"

#include <cstddef>

namespace troupe::model {

/// Progress counts values. It tells the bytes of the weights in memory so far and, in proportion, in all.
class load_counter {
 public:
  /// @param progress  borrowed; may be empty
  load_counter(const model_config& config, const load_progress& progress);

  /// @param values  of the weights that take `num_bytes` in memory
  void add(std::size_t num_bytes, std::size_t values);

  std::size_t num_bytes() const { return num_bytes_; }

 private:
  const load_progress& progress_;
  std::size_t num_bytes_ = 0;
  std::size_t values_ = 0;
  std::size_t total_values_ = 0;
};

} // namespace troupe::model
