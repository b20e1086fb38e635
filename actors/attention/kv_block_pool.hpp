// Who owns which KV block: accounting only, the bytes live in the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

/// A fixed number of KV blocks, reference counted and copied on write.
///
/// A block table lists the blocks of a sequence in the order of positions. Tables that fork share blocks; who
/// wants to write to a shared block gets one of its own first. Misuse (releasing a block that nobody holds)
/// is a programming error and ends the process.
class kv_block_pool {
 public:
  using block_table = std::vector<uint32_t>;

  /// What `make_writable` asks the engine to do before the block is written to.
  struct block_copy {
    uint32_t from = 0;
    uint32_t to = 0;
    bool operator==(const block_copy&) const = default;
  };

  explicit kv_block_pool(uint32_t num_blocks);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }

  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }

  uint32_t num_used() const { return num_blocks() - num_free(); }

  /// How many tables hold the block; 0: it is free.
  uint32_t references(uint32_t block) const { return blocks_.at(block).references; }

  /// Appends `count` fresh blocks to `table`; all or, when there are not enough, none. @returns whether it
  /// did
  bool grow(block_table& table, uint32_t count);

  /// Gives all blocks of `table` back and empties it.
  void release(block_table& table);

  /// Another table of the same blocks.
  block_table fork(const block_table& table);

  /// Makes block `index` of `table` safe to write to: a shared one is replaced by a fresh one.
  /// @param copy  set to what has to be copied, empty when the block was not shared
  /// @returns false when no block is free: nothing has changed
  bool make_writable(block_table& table, uint32_t index, std::optional<block_copy>& copy);

  /// Names the content of a full block, so that a later prompt with the same beginning can find it. 0:
  /// unnamed. A block that is handed out afresh, or written to, is unnamed.
  void name_content(uint32_t block, uint64_t content_hash);

  uint64_t content_hash(uint32_t block) const { return blocks_.at(block).content_hash; }

 private:
  struct block_state {
    uint32_t references = 0;
    uint64_t content_hash = 0;
  };

  uint32_t take();
  void give_back(uint32_t block);

  std::vector<block_state> blocks_;
  std::vector<uint32_t> free_; ///< last in, first out: the block used last is the one still in a cache
};

} // namespace troupe
