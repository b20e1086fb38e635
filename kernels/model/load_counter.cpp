#include "kernels/model/load_counter.hpp"

#include "kernels/model/required_tensors.hpp"

namespace troupe::model {

load_counter::load_counter(const model_config& config, const load_progress& progress) : progress_(progress) {
  for (const auto& required : dense_tensors(config))
    total_values_ += required.num_values();
}

void load_counter::add(std::size_t num_bytes, std::size_t values) {
  num_bytes_ += num_bytes;
  values_ += values;
  if (progress_)
    progress_(num_bytes_, values_ >= total_values_
                              ? num_bytes_
                              : static_cast<std::size_t>(static_cast<double>(num_bytes_)
                                                         * static_cast<double>(total_values_)
                                                         / static_cast<double>(values_)));
}

} // namespace troupe::model
