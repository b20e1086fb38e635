// Iteration-level continuous batching: which rows of which sequences run next, and who has to give way when
// the KV cache is full.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "actors/attention/kv_block_pool.hpp"
#include "actors/defaults.hpp"
#include "actors/error.hpp"

namespace troupe {

/// Sequences wait, then run: their known tokens are prefilled in chunks, and from then on each iteration
/// decodes one. They are ranked by priority (lower first), then arrival. Knows lengths, not tokens; owns the
/// KV blocks.
///
/// A sequence that is in flight (in a plan and not yet completed) is left alone: nothing it holds is taken.
///
/// Sequences that begin with the same tokens (the choices of a request) prefill them once: the others wait
/// for the first one and then share its blocks, as far as those are full. What lies in the block behind is
/// computed anew, at most a block of rows each, so that no block is ever shared and written to.
///
/// Memory is given out as sequences grow, so it can run out. Then the lowest-ranked sequence that is not in
/// flight, the one that came last among those of the lowest priority, loses its blocks and waits for as many
/// as its known tokens take. The highest-ranked one that runs never loses any, so that one always gets to its
/// end. Who has lost its blocks keeps its rank: it goes before all that came later. It starts again when, on
/// top of its own blocks, one is free for each sequence that runs, twice as many each further time, or when
/// none runs: what is computed again lasts. One that has lost its blocks and that more urgent sequences,
/// later than it, have gone before `defaults::max_put_back` times becomes as urgent as they are.
class batch_policy {
 public:
  struct limits {
    uint32_t max_num_seqs = defaults::max_num_seqs;                     ///< that run at once
    uint32_t max_num_batched_tokens = defaults::max_num_batched_tokens; ///< rows of one micro-batch
    uint32_t max_waiting = defaults::max_waiting_seqs; ///< that may wait; preempted ones come on top
    uint32_t max_model_len = 0; ///< positions; `max_positions` lowers it to what the blocks can hold
    uint32_t block_tokens = 16;
    uint32_t num_blocks = 0;
  };

  /// Names a sequence; rises with each arrival.
  using key = uint64_t;

  /// Rows of one sequence: positions [first_position, first_position + num_rows).
  struct slice {
    key sequence = 0;
    uint32_t first_position = 0;
    uint32_t num_rows = 0;
    bool last = false; ///< ends the known tokens: the next one can be sampled
    bool operator==(const slice&) const = default;
  };

  /// A sequence that has lost its blocks.
  struct preemption {
    key sequence = 0;
    uint32_t num_computed = 0; ///< tokens whose keys are lost with them
    bool operator==(const preemption&) const = default;
  };

  /// The tokens that a sequence has in common with others of its group.
  struct common_prefix {
    uint64_t group = 0;
    uint32_t num_tokens = 0; ///< 0: it shares nothing
  };

  struct plan {
    std::vector<slice> slices;
    std::vector<preemption> preempted; ///< wait, and will be computed again from position 0
  };

  explicit batch_policy(limits config);

  /// Positions that one sequence may have: a sequence alone can always run to this length.
  uint32_t max_positions() const { return max_positions_; }

  /// A sequence of `num_tokens` known tokens wants to run. All of a group begin with the same tokens, as many
  /// as the shorter of their prefixes has.
  /// @returns ec::none, ec::context_exceeded (not even one new token fits) or ec::overloaded
  ec add(key sequence, uint32_t num_tokens, int32_t priority, common_prefix prefix);

  ec add(key sequence, uint32_t num_tokens, int32_t priority) {
    return add(sequence, num_tokens, priority, {});
  }

  /// The next micro-batch, at most `max_sequences` sequences wide: decodes first, then chunks of running
  /// prefills, then waiting sequences while seats and blocks for all their known tokens are free, in order of
  /// rank. A decode that finds no free block takes those of the lowest-ranked sequence below it. Everything
  /// in the plan is in flight.
  plan next(uint32_t max_sequences);

  /// A slice is computed; `appended`: and the sequence has one more known token.
  void complete(key sequence, bool appended);

  /// Forgets a sequence and frees its blocks. It must not be in flight, unless the engine has dropped the
  /// step.
  void remove(key sequence);

  bool contains(key sequence) const { return sequences_.count(sequence) > 0; }

  bool in_flight(key sequence) const { return sequences_.at(sequence).rows_in_flight > 0; }

  const kv_block_pool::block_table& blocks(key sequence) const { return sequences_.at(sequence).blocks; }

  const kv_block_pool& pool() const { return pool_; }

  size_t running() const { return running_.size(); }

  size_t waiting() const { return waiting_.size(); }

  /// Sequences that the next plans could take: running and not in flight, or waiting for a seat that is free.
  size_t ready() const;

  /// Sequences in flight.
  size_t flying() const;

 private:
  struct progress {
    int32_t priority = 0;
    uint32_t num_tokens = 0;
    uint32_t num_computed = 0;
    uint32_t rows_in_flight = 0;
    uint32_t num_preempted = 0;
    uint32_t num_put_back = 0; ///< by more urgent ones
    common_prefix prefix;
    kv_block_pool::block_table blocks;
  };

  /// What a sequence that wants to start finds of its prefix among those that run.
  struct prefix_search {
    uint32_t num_tokens = 0;         ///< that it can share
    const progress* owner = nullptr; ///< has computed them
    bool is_under_way = false;       ///< somebody will have computed them
  };

  using rank = std::pair<int32_t, key>;

  uint32_t blocks_for(uint32_t num_tokens) const;
  uint32_t headroom_of(const progress& s) const;
  bool take_blocks(progress& s);
  void put_back_behind(const rank& started);
  void put_back(const rank& waiting, int32_t behind);
  prefix_search find_prefix(const progress& s) const;
  bool make_room(const rank& wanting, plan& result);
  void preempt(rank victim, const rank& wanting, plan& result);
  void take(key name, progress& s, uint32_t& budget, plan& result);

  limits limits_;
  uint32_t max_positions_;
  kv_block_pool pool_;
  std::map<key, progress> sequences_;
  std::set<rank> running_;
  std::set<rank> waiting_;
};

} // namespace troupe
