// Which KV blocks a sequence needs, where some layers see only its last tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "actors/engine/engine.hpp"

namespace troupe {

/// The block tables of a sequence, as numbers of blocks.
class kv_needs {
 public:
  /// @param reaches    of each table
  /// @param most_rows  of a sequence in one micro-batch
  kv_needs(std::vector<kv_reach> reaches, std::uint32_t block_tokens, std::uint32_t most_rows);

  std::size_t num_tables() const { return reaches_.size(); }

  /// Blocks of `num_tokens` tokens.
  std::uint32_t blocks_of(std::uint32_t num_tokens) const {
    return (num_tokens + block_tokens_ - 1) / block_tokens_;
  }

  /// The first block of a table that a row at `position` sees.
  std::uint32_t first_seen(std::size_t table, std::uint32_t position) const;

  /// The first block of a table that a sequence keeps when its next row is at `position`: a little before the
  /// first one that it sees, so that others may still share its prompt.
  std::uint32_t first_kept(std::size_t table, std::uint32_t position) const;

  /// How many blocks of a table are enough for every step of a sequence of `num_tokens` tokens.
  std::uint32_t most_of(std::size_t table, std::uint32_t num_tokens) const;

  /// The same over all tables.
  std::uint64_t most_of_all(std::uint32_t num_tokens) const;

  /// Tokens of the longest sequence that `num_blocks` blocks hold.
  std::uint32_t longest(std::uint32_t num_blocks, std::uint32_t max_tokens) const;

  /// Tokens that `num_blocks` blocks hold: the larger of what `num_seqs` equal sequences and what the longest
  /// sequence alone can have. Some other distributions hold fewer.
  std::uint64_t capacity(std::uint32_t num_blocks, std::uint32_t num_seqs, std::uint32_t max_tokens) const;

 private:
  /// @param rows  of a step
  std::uint32_t most_of(std::size_t table, std::uint32_t num_tokens, std::uint32_t rows) const;
  std::uint32_t most_tokens(std::uint64_t num_blocks, std::uint32_t max_tokens, std::uint32_t rows) const;

  std::vector<kv_reach> reaches_;
  std::uint32_t block_tokens_;
  std::uint32_t most_rows_;
};

} // namespace troupe
