// Iteration-level continuous batching: which rows of which sequences run next, and which sequence is
// preempted when the KV cache is full.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/attention/kv_needs.hpp"
#include "actors/attention/kv_store.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/prefix_hash.hpp"

namespace troupe {

/// A sequence waits, then runs: its known tokens are prefilled in chunks, and from then on each iteration
/// decodes one token. Sequences are ranked by priority (lower first), then by arrival. The policy knows
/// lengths, not tokens, and owns the KV blocks.
///
/// A sequence in flight (in a plan and not completed yet) keeps all its blocks.
///
/// What a sequence that starts has in common with any that the store knows, as full blocks, is not computed
/// again; what a running sequence computes just then is waited for. Each computes the tokens behind the last
/// full block itself, and at least its last known token, so that a shared block is never written to.
///
/// Layers that see only a window have block tables of their own (kv_needs.hpp): a sequence gives back the
/// blocks that its windows have passed when its next rows are planned.
///
/// Blocks are allocated as sequences grow, so they can run out. Then the lowest-ranked sequence that is not
/// in flight is preempted: it gives its blocks back and waits until there are enough for all its known
/// tokens. The highest-ranked running sequence is never preempted, so one sequence always finishes. A
/// preempted sequence keeps its rank. It starts again when, beside its own blocks, one block is free for each
/// running sequence, or when none runs; each further preemption doubles that reserve, so that a restart
/// lasts. After `defaults::max_put_back` overtakings by later, more urgent sequences, a preempted sequence
/// gets their priority.
class batch_policy {
 public:
  struct limits {
    std::uint32_t max_num_seqs = defaults::max_num_seqs;                     ///< running sequences
    std::uint32_t max_num_batched_tokens = defaults::max_num_batched_tokens; ///< rows of one micro-batch
    std::uint32_t max_waiting = defaults::max_waiting_seqs; ///< waiting sequences, without preempted ones
    std::uint32_t max_model_len = 0;                        ///< positions; see `max_positions`
    std::uint32_t block_tokens = 16;
    std::uint32_t num_blocks = 0;
    std::vector<kv_reach> reaches{{}}; ///< of each block table of a sequence
    bool retains = true; ///< blocks that nobody holds are kept for later sequences while there is room
  };

  /// Identifies a sequence; rises with each arrival.
  using key = std::uint64_t;

  /// Rows of one sequence: positions [first_position, first_position + num_rows).
  struct slice {
    key sequence = 0;
    std::uint32_t first_position = 0;
    std::uint32_t num_rows = 0;
    bool last = false; ///< includes the last known token, so that the next one can be sampled
    bool operator==(const slice&) const = default;
  };

  /// A sequence that lost its blocks.
  struct preemption {
    key sequence = 0;
    std::uint32_t num_computed = 0; ///< tokens whose keys were lost
    bool operator==(const preemption&) const = default;
  };

  /// Names of a sequence's beginnings. They reach as far as its known tokens, and grow with them.
  using names = std::shared_ptr<const prefix_chain>;

  /// A sequence that starts.
  struct start {
    key sequence = 0;
    std::uint32_t num_known = 0;  ///< tokens
    std::uint32_t num_cached = 0; ///< of them, tokens whose blocks were found
    bool operator==(const start&) const = default;
  };

  struct plan {
    std::vector<slice> slices;
    std::vector<start> started;
    std::vector<preemption> preempted; ///< these wait, and are computed again from position 0
  };

  explicit batch_policy(limits config);

  /// Longest sequence: `max_model_len`, or what all blocks can hold. A sequence alone can reach it.
  std::uint32_t max_positions() const { return max_positions_; }

  /// Tokens that all blocks hold.
  std::uint64_t capacity() const { return capacity_; }

  /// The part of `capacity` that the taken blocks are of all blocks: `capacity` when none is free.
  std::uint64_t tokens_used() const;

  /// Adds a sequence of `num_tokens` known tokens.
  /// @param prefixes  null: it shares nothing
  /// @param computes_all  it computes all its tokens itself, and others may share them
  /// @returns ec::none, ec::context_exceeded (not even one new token fits) or ec::overloaded
  ec add(key sequence, std::uint32_t num_tokens, std::int32_t priority, names prefixes = {},
         bool computes_all = false);

  /// The next micro-batch, at most `max_sequences` sequences wide: decodes first, then chunks of running
  /// prefills, then waiting sequences while seats and blocks for all their known tokens are free, in order of
  /// rank. A decode that finds no free block preempts the lowest-ranked sequence below it. The sequences of
  /// the plan are in flight from then on.
  plan next(std::uint32_t max_sequences);

  /// A slice is computed. @param appended  the sequence has one more known token
  void complete(key sequence, bool appended);

  /// Removes a sequence and frees its blocks. It must not be in flight, unless the engine has dropped the
  /// step.
  void remove(key sequence);

  bool contains(key sequence) const { return sequences_.count(sequence) > 0; }

  bool in_flight(key sequence) const { return sequences_.at(sequence).rows_in_flight > 0; }

  /// The block tables of a sequence. Blocks before `first_block` are not its own any more. They do not change
  /// while it is in flight.
  std::shared_ptr<const std::vector<block_table>> tables(key sequence) const {
    return sequences_.at(sequence).tables;
  }

  std::uint32_t first_block(key sequence, std::size_t table = 0) const {
    return sequences_.at(sequence).first.at(table);
  }

  const kv_store& store() const { return store_; }

  std::size_t running() const { return running_.size(); }

  std::size_t waiting() const { return waiting_.size(); }

  /// Number of sequences that the next plans could take: running and not in flight, or waiting while
  /// `max_num_seqs` allows more.
  std::size_t ready() const;

  /// Number of sequences in flight.
  std::size_t flying() const;

 private:
  struct progress {
    std::int32_t priority = 0;
    std::uint32_t num_tokens = 0;
    std::uint32_t num_computed = 0;
    std::uint32_t rows_in_flight = 0;
    std::uint32_t num_preempted = 0;
    std::uint32_t num_put_back = 0; ///< times that a more urgent sequence overtook it
    names prefixes;
    bool computes_all = false;
    /// A running sequence, and how many tokens of it are to be computed before this one starts.
    std::optional<std::pair<key, std::uint32_t>> waits_for;
    std::shared_ptr<std::vector<block_table>> tables;
    std::vector<std::uint32_t> first; ///< of each table; the blocks before it have been given back
  };

  using rank = std::pair<std::int32_t, key>;

  std::uint32_t headroom_of(const progress& s) const;
  bool grow(progress& s, const std::vector<std::uint32_t>& ends, std::uint32_t headroom);
  bool take_blocks(progress& s);
  bool take_blocks(const rank& present, progress& s, std::uint32_t num_tokens, plan& result);
  kv_store::content_name name_of(const progress& s, std::uint32_t num_tokens, std::size_t table) const;
  bool has_blocks(const progress& s, std::size_t table, std::uint32_t first, std::uint32_t num_tokens) const;
  std::uint32_t find_prefix(const progress& s) const;
  bool wait_for_prefix(progress& s, std::uint32_t num_tokens) const;
  bool is_waiting_for_prefix(const progress& s) const;
  void share(std::uint32_t num_tokens, progress& s);
  void name_blocks(const progress& s, std::uint32_t first, std::uint32_t end);
  void release(progress& s);
  void put_back_behind(const rank& started);
  void put_back(const rank& waiting, std::int32_t behind);
  bool make_room(const rank& wanting, plan& result);
  void preempt(rank victim, const rank& wanting, plan& result);
  void take(key name, progress& s, std::uint32_t& budget, plan& result);

  limits limits_;
  kv_needs needs_;
  std::uint32_t max_positions_;
  std::uint64_t capacity_; ///< tokens
  kv_store store_;
  std::map<key, progress> sequences_;
  std::set<rank> running_;
  std::set<rank> waiting_;
};

} // namespace troupe
