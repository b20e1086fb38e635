#include "kernels/model/program/tensors.hpp"

#include <functional>
#include <numeric>

namespace troupe::model {

std::size_t tensor_requirement::num_values() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t matrix_ref::outputs() const {
  std::size_t sum = 0;
  for (const auto& part : parts)
    sum += part.shape.front();
  return sum;
}

std::size_t mlp_ref::num_values() const {
  auto sum = gate.num_values() + (up ? up->num_values() : 0) + down.num_values();
  for (const auto& bias : biases)
    sum += bias.num_values();
  return sum;
}

} // namespace troupe::model
