// Accounting of KV blocks: which sequences hold which block. The bytes are in the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/engine/engine.hpp"

namespace troupe {

/// A fixed number of KV blocks, reference counted and copied on write.
///
/// A block table lists the blocks of a sequence in the order of positions. A forked table shares its blocks;
/// a shared block is copied before it is written to. Releasing a block that no table holds is a programming
/// error and ends the process.
class kv_block_pool {
 public:
  explicit kv_block_pool(std::uint32_t num_blocks);

  std::uint32_t num_blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }

  std::uint32_t num_free() const { return static_cast<std::uint32_t>(free_.size()); }

  std::uint32_t num_used() const { return num_blocks() - num_free(); }

  /// Number of tables that hold the block; 0: it is free.
  std::uint32_t references(std::uint32_t block) const { return blocks_.at(block).references; }

  /// Appends `count` free blocks to `table`, or none if there are not enough. @returns whether it did
  bool grow(block_table& table, std::uint32_t count);

  /// Releases all blocks of `table` and empties it.
  void release(block_table& table);

  /// Releases blocks [first, end) of `table`; their places in it stay, without a meaning.
  void release(const block_table& table, std::uint32_t first, std::uint32_t end);

  /// @param first  the blocks before it have been released
  /// @returns another table of the same blocks
  block_table fork(const block_table& table, std::uint32_t first = 0);

  /// Makes block `index` of `table` safe to write to: a shared one is replaced by a fresh one.
  /// @param copy  set to the copy that the engine must make; empty if the block was not shared
  /// @returns false if no block is free; then nothing has changed
  bool make_writable(block_table& table, std::uint32_t index, std::optional<block_copy>& copy);

  /// Sets the hash of a full block's content, so that a later prompt with the same beginning can find it; 0:
  /// none. A block that is allocated anew or written to has none.
  void name_content(std::uint32_t block, std::uint64_t content_hash);

  std::uint64_t content_hash(std::uint32_t block) const { return blocks_.at(block).content_hash; }

 private:
  struct block_state {
    std::uint32_t references = 0;
    std::uint64_t content_hash = 0;
  };

  std::uint32_t take();
  void give_back(std::uint32_t block);

  std::vector<block_state> blocks_;
  std::vector<std::uint32_t>
      free_; ///< last in, first out: the block used last is most likely in a processor cache
};

} // namespace troupe
