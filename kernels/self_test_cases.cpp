#include "kernels/self_test_cases.hpp"

#include "kernels/sampling.hpp"

namespace troupe::kernels::proof {

namespace {

float value_at(std::uint32_t stream, std::size_t i) {
  const auto words = philox4x32({static_cast<std::uint32_t>(i), stream, 0, 0}, {1, 2});
  if (words[1] % 61 == 0)
    return 0.0F;
  if (words[1] % 67 == 0)
    return 1e-40F;
  const float unit = static_cast<float>(static_cast<std::int32_t>(words[0])) * (1.0F / 2147483648.0F);
  return unit * static_cast<float>(1U << words[1] % 5);
}

} // namespace

std::vector<float> floats(std::uint32_t stream, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = value_at(stream, i);
  return values;
}

std::vector<bfloat16> bfloats(std::uint32_t stream, std::size_t count) {
  std::vector<bfloat16> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = to_bfloat16(value_at(stream, i));
  return values;
}

} // namespace troupe::kernels::proof
