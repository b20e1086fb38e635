// Where things lie in a panel of int4 weights.
#pragma once

#include <cstddef>

namespace troupe::kernels {

/// 32 of K of 16 columns: what offsets in a panel are counted in.
inline constexpr std::size_t int4_block_bytes = 256;

/// Scales of so many groups, [4][16 columns] signed bytes, are a cache line.
inline constexpr std::size_t groups_of_scale_line = 4;
inline constexpr std::size_t scale_line_bytes = 64;

/// Blocks of 32 of K follow one another. Where they have group scales, a line with those of four groups lies
/// in front of these, so that weights and scales are one stream of memory
/// (docs/decisions/0007-scales-between-weights.md); the last line may have fewer groups behind it.
///
/// Always inlined: the kernels of every instruction set use it, and a copy that was compiled with one set's
/// flags must not become the program's (tests/check_isa_symbols.py).
struct int4_layout {
  /// Blocks that share a scale: 1 or 2; 0: no group scales.
  std::size_t group_blocks = 0;

  [[gnu::always_inline]] constexpr bool has_groups() const { return group_blocks != 0; }

  /// Blocks behind a line of scales.
  [[gnu::always_inline]] constexpr std::size_t blocks_of_line() const {
    return groups_of_scale_line * group_blocks;
  }

  /// Blocks that may not be read apart: those behind a line of scales, where there are any.
  [[gnu::always_inline]] constexpr std::size_t blocks_of_unit() const {
    return has_groups() ? blocks_of_line() : 1;
  }

  /// A line of scales and its blocks, in bytes.
  [[gnu::always_inline]] constexpr std::size_t bytes_of_line() const {
    return scale_line_bytes + blocks_of_line() * int4_block_bytes;
  }

  /// Where block `b` begins.
  [[gnu::always_inline]] constexpr std::size_t block_offset(std::size_t b) const {
    return b * int4_block_bytes + (has_groups() ? (line_of(b) + 1) * scale_line_bytes : 0);
  }

  /// Where the 16 scales of block `b` lie.
  [[gnu::always_inline]] constexpr std::size_t scales_offset(std::size_t b) const {
    return line_of(b) * bytes_of_line() + (b >> (group_blocks / 2)) % groups_of_scale_line * 16;
  }

  /// Bytes of `blocks` blocks from a panel's beginning on, scales included.
  [[gnu::always_inline]] constexpr std::size_t bytes(std::size_t blocks) const {
    const std::size_t lines = has_groups() ? line_of(blocks + blocks_of_line() - 1) : 0;
    return blocks * int4_block_bytes + lines * scale_line_bytes;
  }

 private:
  // Which line of scales block `b` is behind: 4 or 8 blocks are.
  [[gnu::always_inline]] constexpr std::size_t line_of(std::size_t b) const {
    return b >> (group_blocks + 1);
  }
};

} // namespace troupe::kernels
