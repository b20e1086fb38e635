// The layout of a panel of int4 weights.
#pragma once

#include <cstddef>

namespace troupe::kernels {

/// 32 of K of 16 columns: the unit of offsets in a panel.
inline constexpr std::size_t int4_block_bytes = 256;

/// Group scales of this many groups, [4][16 columns] signed bytes, fill a cache line.
inline constexpr std::size_t groups_of_scale_line = 4;
inline constexpr std::size_t scale_line_bytes = 64;

/// Blocks of 32 of K follow one another. With group scales, a line with the scales of four groups precedes
/// their blocks, so that weights and scales are one stream of memory
/// (docs/decisions/0007-scales-between-weights.md). The last line may have fewer groups.
///
/// Always inlined: the kernels of every instruction set use it, and a copy that was compiled with one set's
/// flags must not become the program's (tests/check_isa_symbols.py).
struct int4_layout {
  /// Blocks that share a scale: 1 or 2; 0: no group scales.
  std::size_t group_blocks = 0;

  [[gnu::always_inline]] constexpr bool has_groups() const { return group_blocks != 0; }

  /// Blocks after a line of scales.
  [[gnu::always_inline]] constexpr std::size_t blocks_of_line() const {
    return groups_of_scale_line * group_blocks;
  }

  /// Blocks that may not be separated: those of a line of scales, or one.
  [[gnu::always_inline]] constexpr std::size_t blocks_of_unit() const {
    return has_groups() ? blocks_of_line() : 1;
  }

  /// A line of scales and its blocks, in bytes.
  [[gnu::always_inline]] constexpr std::size_t bytes_of_line() const {
    return scale_line_bytes + blocks_of_line() * int4_block_bytes;
  }

  /// Start of block `b`.
  [[gnu::always_inline]] constexpr std::size_t block_offset(std::size_t b) const {
    return b * int4_block_bytes + (has_groups() ? (line_of(b) + 1) * scale_line_bytes : 0);
  }

  /// Place of the 16 scales of block `b`.
  [[gnu::always_inline]] constexpr std::size_t scales_offset(std::size_t b) const {
    return line_of(b) * bytes_of_line() + (b >> (group_blocks / 2)) % groups_of_scale_line * 16;
  }

  /// Bytes of a panel's first `blocks` blocks, scales included.
  [[gnu::always_inline]] constexpr std::size_t bytes(std::size_t blocks) const {
    const std::size_t lines = has_groups() ? line_of(blocks + blocks_of_line() - 1) : 0;
    return blocks * int4_block_bytes + lines * scale_line_bytes;
  }

 private:
  // The line of scales of block `b`: each has 4 or 8 blocks.
  [[gnu::always_inline]] constexpr std::size_t line_of(std::size_t b) const {
    return b >> (group_blocks + 1);
  }
};

} // namespace troupe::kernels
