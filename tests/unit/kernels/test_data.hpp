// Random rows and contexts shared by the kernel tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/context.hpp"
#include "kernels/isa.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (float& value : values)
    value = normal(engine);
  return values;
}

inline std::vector<bfloat16> rounded(const std::vector<float>& values) {
  std::vector<bfloat16> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    result[i] = to_bfloat16(values[i]);
  return result;
}

inline std::vector<float> widened(const std::vector<bfloat16>& values) {
  std::vector<float> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    result[i] = to_float(values[i]);
  return result;
}

/// Whether two ranges hold the same bits (NaN and signs of zero included).
template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return same_bits(std::span<const T>(a), std::span<const T>(b));
}

/// Outputs are filled with it before an op, so that unwritten values are noticed.
inline constexpr float poison = -12345.678F;

/// Calls `function(context)` with every supported instruction set on 1, 2 and 3 threads.
template <class Function>
void with_every_context(const Function& function) {
  for (const unsigned threads : {1U, 2U, 3U}) {
    thread_pool pool({.threads = threads});
    for (const isa set : supported_isas()) {
      context ctx(pool, set);
      function(ctx);
    }
  }
}

/// The reference: portable, one thread.
struct reference_context {
  thread_pool pool{thread_pool_options{.threads = 1}};
  context ctx{pool, isa::portable};
};

} // namespace troupe::kernels
