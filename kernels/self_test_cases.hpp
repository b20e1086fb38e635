// The cases of self_test.cpp for every op, and the comparison of two tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bfloat16.hpp"
#include "kernels/buffer.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::proof {

/// Values of both signs over several magnitudes, some zero, some denormal. Streams differ.
std::vector<float> floats(std::uint32_t stream, std::size_t count);
std::vector<bfloat16> bfloats(std::uint32_t stream, std::size_t count);

/// Quantized weights with arbitrary integers and scales, in the layout of `packed_matrix`.
struct quantized_panels {
  buffer storage;
  quant_panel first;
};

quantized_panels any_weights(std::uint32_t stream, packed_format format, std::size_t outputs,
                             std::size_t inputs);

/// BF16 panels of `blocks` of 32 of K with coded exponents, from `packed`, 1 KiB a block, which must have few
/// exponents.
struct coded_panels {
  coded_panels(const std::vector<bfloat16>& packed, std::size_t blocks);

  std::size_t stride;
  std::vector<std::byte> bytes;
};

/// `bfloats` of packed panels, some with rare exponents.
std::vector<bfloat16> bfloats_with_exceptions(std::uint32_t stream, std::size_t count);

template <class T>
const std::byte* raw(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

inline std::byte* bytes(float* out) {
  return reinterpret_cast<std::byte*>(out);
}

/// Results of the reference, by the case's name and its number among those of that name: several candidates
/// are compared with them.
using reference_results = std::map<std::pair<std::string, std::size_t>, std::vector<float>>;

/// Runs one op with both tables into equally poisoned memory and compares all of it, which also shows writes
/// past the end.
class comparison {
 public:
  comparison(const kernel_table& candidate, reference_results& reference)
      : candidate_(candidate), reference_(reference) {}

  const kernel_table& candidate() const { return candidate_; }

  /// The first op that differed.
  const std::optional<std::string>& failure() const { return failure_; }

  /// `op(table, out)` writes at most `num_bytes`.
  template <class Op>
  void check(const std::string& name, std::size_t num_bytes, const Op& op) {
    if (failure_)
      return;
    std::vector<float> got(num_bytes / sizeof(float) + 17);
    std::memset(got.data(), 0x3c, got.size() * sizeof(float)); // 0.0115, not NaN: some ops add
    const auto [found, is_new] = reference_.try_emplace(std::pair{name, of_name_[name]++}, got);
    std::vector<float>& expected = found->second;
    if (is_new)
      op(cpu::portable_table, expected.data());
    op(candidate_, got.data());
    if (expected.size() != got.size()
        || std::memcmp(expected.data(), got.data(), expected.size() * sizeof(float)) != 0)
      failure_ = name;
  }

 private:
  const kernel_table& candidate_;
  reference_results& reference_;
  std::map<std::string, std::size_t> of_name_;
  std::optional<std::string> failure_;
};

/// Packing and products of FP32 and BF16 weights, plain and coded, in registers and in tiles.
void check_products(comparison& compare);

/// The same for quantized weights, and the search for their scales.
void check_quantized_products(comparison& compare);

/// Ops on rows between the products, and attention.
void check_rows(comparison& compare);

} // namespace troupe::kernels::proof
