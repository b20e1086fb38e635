// Iteration-level continuous batching: which rows of which sequences run next, and which sequence is
// preempted when the KV cache is full.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "actors/attention/kv_block_pool.hpp"
#include "actors/attention/kv_needs.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"

namespace troupe {

/// A sequence waits, then runs: its known tokens are prefilled in chunks, and from then on each iteration
/// decodes one token. Sequences are ranked by priority (lower first), then by arrival. The policy knows
/// lengths, not tokens, and owns the KV blocks.
///
/// A sequence in flight (in a plan and not completed yet) keeps all its blocks.
///
/// Sequences that begin with the same tokens (the choices of a request) prefill them once: the others wait
/// for the first one and then share its full blocks. Each computes the tokens behind the last full block
/// itself, at most one block of rows, so that a shared block is never written to.
///
/// Layers that see only a window have block tables of their own (kv_needs.hpp): a sequence gives back the
/// blocks that its windows have passed when its next rows are planned.
///
/// Blocks are allocated as sequences grow, so they can run out. Then the lowest-ranked sequence that is not
/// in flight is preempted: it loses its blocks and waits until there are enough for all its known tokens. The
/// highest-ranked running sequence is never preempted, so one sequence always finishes. A preempted sequence
/// keeps its rank. It starts again when, beside its own blocks, one block is free for each running sequence,
/// or when none runs; each further preemption doubles that reserve, so that a restart lasts. After
/// `defaults::max_put_back` overtakings by later, more urgent sequences, a preempted sequence gets their
/// priority.
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

  /// The tokens that a sequence has in common with others of its group.
  struct common_prefix {
    std::uint64_t group = 0;
    std::uint32_t num_tokens = 0; ///< 0: the sequence shares nothing
  };

  struct plan {
    std::vector<slice> slices;
    std::vector<preemption> preempted; ///< these wait, and are computed again from position 0
  };

  explicit batch_policy(limits config);

  /// Longest sequence: `max_model_len`, or what all blocks can hold. A sequence alone can reach it.
  std::uint32_t max_positions() const { return max_positions_; }

  /// Tokens that all blocks hold.
  std::uint64_t capacity() const { return capacity_; }

  /// The part of `capacity` that the taken blocks are of all blocks: `capacity` when none is free.
  std::uint64_t tokens_used() const;

  /// Adds a sequence of `num_tokens` known tokens. Two sequences of a group begin with the same tokens, as
  /// many as the shorter of their prefixes has.
  /// @returns ec::none, ec::context_exceeded (not even one new token fits) or ec::overloaded
  ec add(key sequence, std::uint32_t num_tokens, std::int32_t priority, common_prefix prefix);

  ec add(key sequence, std::uint32_t num_tokens, std::int32_t priority) {
    return add(sequence, num_tokens, priority, {});
  }

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

  const kv_block_pool& pool() const { return pool_; }

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
    common_prefix prefix;
    std::shared_ptr<std::vector<block_table>> tables;
    std::vector<std::uint32_t> first; ///< of each table; the blocks before it have been given back
  };

  /// Where a sequence that is to start finds its prefix among the running ones.
  struct prefix_search {
    std::uint32_t num_tokens = 0;    ///< tokens that it can share
    const progress* owner = nullptr; ///< the sequence that has computed them
    bool is_under_way = false;       ///< a running sequence is computing them
  };

  using rank = std::pair<std::int32_t, key>;

  std::uint32_t headroom_of(const progress& s) const;
  bool grow(progress& s, const std::vector<std::uint32_t>& ends, std::uint32_t headroom);
  bool take_blocks(progress& s);
  bool take_blocks(const rank& present, progress& s, std::uint32_t num_tokens, plan& result);
  void share(const progress& owner, std::uint32_t num_tokens, progress& s);
  void release(progress& s);
  void put_back_behind(const rank& started);
  void put_back(const rank& waiting, std::int32_t behind);
  prefix_search find_prefix(const progress& s) const;
  bool make_room(const rank& wanting, plan& result);
  void preempt(rank victim, const rank& wanting, plan& result);
  void take(key name, progress& s, std::uint32_t& budget, plan& result);

  limits limits_;
  kv_needs needs_;
  std::uint32_t max_positions_;
  std::uint64_t capacity_; ///< tokens
  kv_block_pool pool_;
  std::map<key, progress> sequences_;
  std::set<rank> running_;
  std::set<rank> waiting_;
};

} // namespace troupe
