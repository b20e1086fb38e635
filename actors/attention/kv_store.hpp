// The store of KV blocks: which sequences hold which block, and which blocks are kept for later prompts. The
// bytes are in the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/engine/engine.hpp"
#include "actors/protocol/prefix_hash.hpp"

namespace troupe {

/// A fixed number of KV blocks. A block is free, held by at least one block table, or retained: nobody holds
/// it, and its content has a name by which a later prompt finds it.
///
/// A block table lists the blocks of a sequence in the order of positions. A forked table shares its blocks;
/// a shared block is copied before it is written to. Of retained blocks those that were given back first are
/// evicted first, and only when no block is free. Releasing a block that no table holds is a programming
/// error and ends the process.
class kv_store {
 public:
  /// Names the content of a full block: the tokens up to its end, and the table it is in, since layers of
  /// different tables keep different keys of one token.
  struct content_name {
    prefix_hash prefix;
    std::uint32_t num_tokens = 0;
    std::uint32_t table = 0;
    bool operator==(const content_name&) const = default;
  };

  /// @param retains  false: a block that nobody holds is free
  explicit kv_store(std::uint32_t num_blocks, bool retains = true);

  std::uint32_t num_blocks() const { return static_cast<std::uint32_t>(blocks_.size()); }

  /// Blocks that a table can take: free ones, and retained ones, which it would evict.
  std::uint32_t num_available() const { return static_cast<std::uint32_t>(free_.size()) + num_retained_; }

  std::uint32_t num_retained() const { return num_retained_; }

  std::uint32_t num_held() const { return num_blocks() - num_available(); }

  /// Number of tables that hold the block.
  std::uint32_t references(std::uint32_t block) const { return blocks_.at(block).references; }

  /// Appends `count` blocks to `table`, or none if there are not enough. @returns whether it did
  bool grow(block_table& table, std::uint32_t count);

  /// Releases blocks [first, end) of `table`; their places in it stay, without a meaning. The last one counts
  /// as given back first.
  void release(const block_table& table, std::uint32_t first, std::uint32_t end);

  /// @param first  the blocks before it have been released
  /// @returns another table of the same blocks
  block_table fork(const block_table& table, std::uint32_t first = 0);

  /// Makes block `index` of `table` safe to write to: a shared one is replaced by a fresh one, and one with a
  /// name loses it.
  /// @param copy  set to the copy that the engine must make; empty if the block was not shared
  /// @returns false if no block is available; then nothing has changed
  bool make_writable(block_table& table, std::uint32_t index, std::optional<block_copy>& copy);

  /// Names the content of a held block. Nothing happens if another block has this name: the first one is as
  /// good.
  void name(std::uint32_t block, const content_name& content);

  /// The held or retained block with this content.
  std::optional<std::uint32_t> find(const content_name& content) const;

  /// Appends a block that `find` has found to `table`, which holds it from now on.
  void hold(block_table& table, std::uint32_t block);

  /// Rises when a block is named or evicted.
  std::uint64_t revision() const { return revision_; }

  /// Names of blocks, those that are held first, then the retained ones, the last one to be evicted first.
  /// @param wanted  of which at most `most` are returned
  template <class Predicate>
  std::vector<content_name> names(std::size_t most, Predicate wanted) const;

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  /// `before` and `after` link the retained blocks, in the order of their release.
  struct block_state {
    std::uint32_t references = 0;
    std::uint32_t before = none;
    std::uint32_t after = none;
    std::optional<content_name> content{};
  };

  struct hash_of {
    std::size_t operator()(const content_name& name) const {
      return static_cast<std::size_t>(name.prefix.low ^ (std::uint64_t{name.table} << 56));
    }
  };

  std::uint32_t take();
  void give_back(std::uint32_t block);
  void retain(std::uint32_t block);
  void unlink(std::uint32_t block);
  void forget(std::uint32_t block);

  bool retains_;
  std::vector<block_state> blocks_;
  std::vector<std::uint32_t> free_; ///< last in, first out: most likely in a processor cache
  std::unordered_map<content_name, std::uint32_t, hash_of> index_;
  std::uint32_t oldest_ = none; ///< retained
  std::uint32_t newest_ = none;
  std::uint32_t num_retained_ = 0;
  std::uint64_t revision_ = 0;
};

template <class Predicate>
std::vector<kv_store::content_name> kv_store::names(std::size_t most, Predicate wanted) const {
  std::vector<content_name> result;
  const auto add = [&](const block_state& block) {
    if (result.size() < most && block.content && wanted(*block.content))
      result.push_back(*block.content);
  };
  for (const auto& block : blocks_)
    if (block.references > 0)
      add(block);
  for (auto block = newest_; block != none && result.size() < most; block = blocks_[block].before)
    add(blocks_[block]);
  return result;
}

} // namespace troupe
