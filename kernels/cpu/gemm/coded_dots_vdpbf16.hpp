// Weights with coded exponents for dot products of BF16: decoded in registers into the order of the dots.
// Included only by avx512_bf16_kernels.cpp.
#pragma once

#include "kernels/cpu/gemm/coded_decode.hpp"
#include "kernels/cpu/gemm/dots_vdpbf16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// The coded weights of a block, without exceptions.
struct coded_dots {
  const std::byte* block;
  exponent_table exponents;

  inline __attribute__((always_inline)) void at(std::size_t /*panel*/, std::size_t i, vi& even,
                                                vi& odd) const {
    const std::byte* group = block + i / 2 * coded_group_bytes;
    const vi codes = load_pairs(group);
    const vi rest = load_pairs(group + (1 + i % 2) * coded_line_bytes);
    if (i % 2 == 0)
      coded_quarter<0>(exponents, codes, rest, even, odd);
    else
      coded_quarter<8>(exponents, codes, rest, even, odd);
  }
};

/// Writes an ordered block, without the exponents of exceptions.
TROUPE_INLINE void order_coded(const coded_dots& weights, std::byte* ordered) {
  for (std::size_t i = 0; i < dots_of_half; ++i) {
    vi even;
    vi odd;
    weights.at(0, i, even, odd);
    _mm512_store_si512(ordered + i * vector_bytes, even);
    _mm512_store_si512(ordered + (dots_of_half + i) * vector_bytes, odd);
  }
}

/// The blocks of a coded panel, one after the other.
class coded_blocks {
 public:
  static constexpr std::size_t bytes = coded_block_bytes;

  static constexpr std::size_t header_bytes(std::size_t blocks) { return coded_header_bytes(blocks); }

  coded_blocks(const std::byte* panel, std::size_t blocks, std::size_t first)
      : panel_(panel),
        block_(panel + header_bytes(blocks) + first * bytes),
        exception_(exceptions_from(panel, first)),
        index_(first) {}

  const std::byte* block() const { return block_; }

  template <std::size_t Rows, class Values, class Finish, class Fetch>
  inline __attribute__((always_inline)) void multiply(const Values& values, const Finish& finish,
                                                      const Fetch& fetch) {
    // Six pairs of lines in eight steps.
    const auto fetch_pairs = [&](std::size_t i) {
      if (i % 4 == 3)
        return;
      const std::size_t pair = i - i / 4;
      fetch(2 * pair);
      fetch(2 * pair + 1);
    };
    if (block_of(*exception_) == index_) [[unlikely]] {
      for (std::size_t i = 0; i < dots_of_half; ++i)
        fetch_pairs(i);
      alignas(64) std::byte ordered[panel_block_bytes];
      order_apart(panel_, block_, ordered);
      end_block(ordered);
      multiply_ordered<Rows>(values, ordered, finish);
      return;
    }
    dot_block<Rows>(values, coded_dots{block_, exponent_table(panel_)}, finish, fetch_pairs);
    block_ += bytes;
    ++index_;
  }

  void order(std::size_t count, std::byte* out) {
    const exponent_table exponents(panel_); // stays in a register
    for (std::size_t b = 0; b < count; ++b, out += panel_block_bytes) {
      order_coded({block_, exponents}, out);
      end_block(out);
    }
  }

 private:
  /// Adds the exceptions of an ordered block, and goes to the next block.
  inline __attribute__((always_inline)) void end_block(std::byte* ordered) {
    exception_ = patch_exceptions(exception_, index_, [&](std::size_t k, std::size_t column) {
      return reinterpret_cast<std::uint16_t*>(ordered) + place_of(k, column);
    });
    block_ += bytes;
    ++index_;
  }

  /// Not inlined, so that loops over blocks stay small.
  __attribute__((noinline)) static void order_apart(const std::byte* panel, const std::byte* block,
                                                    std::byte* ordered) {
    order_coded({block, exponent_table(panel)}, ordered);
  }

  /// Not inlined, for the same reason.
  template <std::size_t Rows, class Values, class Finish>
  __attribute__((noinline)) static void multiply_ordered(Values values, const std::byte* ordered,
                                                         Finish finish) {
    dot_block<Rows>(values, ordered_dots{ordered}, finish);
  }

  /// Place of a weight in an ordered block: of four k, the first two are in upper words.
  static constexpr std::size_t place_of(std::size_t k, std::size_t column) {
    return ((k % 2 * dots_of_half + k / 4) * 16 + column) * 2 + (k % 4 < 2 ? 1 : 0);
  }

  const std::byte* panel_;
  const std::byte* block_;
  const std::uint32_t* exception_;
  std::size_t index_;
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
