// Interfaces of engines. Engines compute, actors decide: an actor submits a step and continues. The thread
// that computes the step (the engine's own, or the one that ran the actor: compute_queue.hpp) calls `done`,
// which only posts a message to the actor. The actor may then run on that thread (actor_runner.hpp).
//
// Two implementations of each interface: model_attention_engine.hpp and model_expert_engine.hpp compute with
// kernels; tests/simulation/simulated_engine.hpp computes in virtual time, for tests and the simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/transport/wire/payload.hpp"
#include "kernels/model/micro_batch.hpp"

namespace troupe {

/// What the actors know about a model; nothing about arithmetic.
struct model_shape {
  std::string fingerprint;    ///< identifies the model's content; all members of a cluster share it
  std::string config_id;      ///< identifies its config.json; part of the fingerprint
  std::string numerics_class; ///< shared by replicas and fail-over targets
  std::uint32_t vocab_size = 0;
  std::uint32_t max_model_len = 0;          ///< positions that the model supports
  std::uint32_t row_bytes = 0;              ///< size of an activation row: hidden × dtype
  std::uint32_t num_topk = 0;               ///< experts per token (the widest layer's)
  std::vector<std::uint32_t> layer_experts; ///< [layers] experts of each decoder layer; 0 for a dense one
};

// ---------------------------------------------------------------------------------------------------------------
// Attention side

/// How far back the layers see whose keys are in one block table of a sequence. At most one of the two is not
/// 0.
struct kv_reach {
  std::uint32_t window = 0; ///< tokens, a row's own included; 0: all
  std::uint32_t chunk = 0;  ///< a row sees only its own chunk of so many tokens; 0: all
};

/// What sampling needs of one sequence. Shared by the actor and the step in flight; the actor does not use it
/// between submit and done.
struct sequence_tokens {
  sequence_id id;
  sampling_params sampling;
  std::uint32_t num_prompt = 0;     ///< tokens [0, num_prompt) are the prompt
  std::vector<std::int32_t> tokens; ///< prompt, then all emitted tokens
};

using model::block_copy;
using step_row = model::batch_row;

/// KV blocks of positions 0.. of a sequence.
using block_table = std::vector<std::uint32_t>;

/// A sequence of a step: its tokens for sampling, its blocks for attention.
struct step_sequence {
  std::shared_ptr<const sequence_tokens> tokens;
  /// A table for each of `kv_reaches`, enough for all rows of the step. Blocks that no row of the step sees
  /// may be another sequence's. Shared as `tokens` are.
  std::shared_ptr<const std::vector<block_table>> tables;
};

enum class token_purpose : std::uint8_t {
  sample, ///< draw the token at the position
  report, ///< give the log probability of the token that is known there
};

/// A token that a step is asked for.
struct wanted_token {
  std::uint32_t row = 0;      ///< of the step: the one before the token
  std::uint32_t position = 0; ///< of the token in its sequence
  token_purpose purpose = token_purpose::sample;
  std::span<const std::int32_t> allowed{}; ///< the only tokens that may be drawn; empty: all
};

/// One flat batch that passes through the layers. The actor fills all but `state`, which belongs to the
/// engine (residual stream, router weights, workspace) and lives as long as the step.
///
/// A row has a token of its own. Behind the last known token of its sequence it is a guess, and a token that
/// is drawn behind it is the one that follows if the guesses before it are right. Paths of a token tree are
/// sequences with blocks of their own, whose last block is copied: the bits of attention depend on the places
/// of keys.
struct attention_step {
  struct engine_state {
    virtual ~engine_state() = default;
  };

  std::uint32_t number = 0;       ///< the actor's number of the step
  std::uint64_t trace = 0;        ///< its key in the timeline; 0: it is not traced
  std::vector<block_copy> copies; ///< made in order, before the rows are computed
  std::vector<step_sequence> sequences;
  std::vector<step_row> rows;       ///< those of a sequence in the order of positions
  std::vector<wanted_token> wanted; ///< in the order of rows
  std::unique_ptr<engine_state> state;
};

using attention_step_ptr = std::shared_ptr<attention_step>;

/// Rows that the experts of a MoE layer must compute: the token → expert table, sorted by expert.
struct moe_dispatch {
  std::uint32_t layer = 0;
  std::uint32_t num_rows = 0;
  std::uint32_t num_topk = 0;
  payload activations; ///< [num_rows, hidden], the model's dtype
  std::vector<std::uint32_t>
      offsets; ///< [experts + 1]: the slots of expert e are slots[offsets[e] .. offsets[e + 1])
  std::vector<std::uint32_t> slots; ///< [num_rows × num_topk]: row × num_topk + place in the row's top-k
};

/// Outputs of experts: row i of `outputs` belongs to `slots[i]`.
struct expert_outputs {
  /// In place of a slot: another host answered it first, and this row is ignored.
  static constexpr std::uint32_t unused = ~std::uint32_t{0};

  payload outputs;                  ///< [slots.size(), hidden]
  std::vector<std::uint32_t> slots; ///< row × num_topk + place
};

/// A token that a step was asked for.
struct step_token {
  std::uint32_t sequence = 0; ///< index into attention_step::sequences
  std::uint32_t position = 0;
  token_purpose purpose = token_purpose::sample;
  bool is_broken = false; ///< the logits were not numbers, and `token` has no meaning
  generated_token token{};
};

/// The end of a pass: a dispatch at a MoE layer, or tokens after the last layer.
struct attention_result {
  bool finished = false;
  moe_dispatch dispatch;          ///< when not finished
  std::vector<step_token> tokens; ///< when finished: one for each wanted token, in their order
  std::uint64_t compute_ns = 0;
  std::string error; ///< not empty: the pass failed and the step with it
};

/// Called once per pass, on the thread that computed it; must only post a result.
using attention_done = std::function<void(attention_step_ptr, attention_result)>;

class attention_engine {
 public:
  virtual ~attention_engine() = default;
  virtual const model_shape& shape() const = 0;
  virtual std::uint32_t block_tokens() const = 0; ///< tokens per KV block
  virtual std::uint32_t num_blocks() const = 0;   ///< KV blocks in the budget

  /// The block tables of a sequence; they draw from the same blocks.
  virtual std::vector<kv_reach> kv_reaches() const { return {{}}; }

  /// Embeds the rows and runs them to the first MoE layer, or to the end.
  virtual void begin(attention_step_ptr step, attention_done done) = 0;

  /// Combines the answers to the last dispatch in top-k order (every slot exactly once) and continues.
  virtual void resume(attention_step_ptr step, std::vector<expert_outputs> outputs, attention_done done) = 0;
};

// ---------------------------------------------------------------------------------------------------------------
// Expert side

/// Rows of one expert within a step: row `rows[i]` of `activations` gives row `first_output + i` of the
/// output.
struct expert_rows {
  std::uint32_t expert = 0;
  std::uint32_t batch = 0;        ///< index into expert_step::batches
  std::uint32_t first_output = 0; ///< first row in that batch's output
  std::vector<std::uint32_t> rows;
};

/// One grouped GEMM: all queued rows of a layer, from any number of expert batches.
struct expert_step {
  struct source {
    std::uint32_t num_outputs = 0;
    payload activations; ///< [rows, hidden]
  };

  std::uint32_t layer = 0;
  std::uint64_t trace = 0; ///< its key in the timeline; 0: it is not traced
  std::vector<source> batches;
  std::vector<expert_rows> work; ///< sorted by expert
};

struct expert_step_result {
  std::vector<payload> outputs; ///< one per expert_step::batches, [num_outputs, hidden]
  std::uint64_t compute_ns = 0;
  std::string error; ///< not empty: nothing was computed
};

using expert_done = std::function<void(expert_step_result)>;

/// Which experts are loaded after a change, and why others are not.
struct expert_load_result {
  std::vector<expert_id> hosted;
  std::string error;
};

using expert_load_done = std::function<void(expert_load_result)>;

/// An expert that an engine holds, as bytes that another engine of the same kind can load. The bytes live as
/// long as this object, even if the engine drops the expert. Immutable. @threads any
class expert_image {
 public:
  virtual ~expert_image() = default;

  /// Engines with the same layout, model and numerics class may exchange the bytes.
  virtual const std::string& layout() const = 0;
  virtual std::uint64_t num_bytes() const = 0;
  /// Checksum of all bytes; reads them.
  virtual std::uint64_t checksum() const = 0;
  /// Copies out.size() bytes from `offset` on; the range must be inside.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Receives the bytes of an expert that come from another engine. Used by one thread at a time.
class expert_sink {
 public:
  virtual ~expert_sink() = default;

  /// Allocates memory; bytes written before are discarded.
  /// @returns why this engine cannot use such bytes; empty if it can
  virtual std::string begin(const std::string& layout, std::uint64_t num_bytes) = 0;
  /// Writes bytes from `offset` on; the range must be inside.
  virtual void write(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Checksum of all bytes, as `expert_image::checksum`.
  virtual std::uint64_t checksum() const = 0;
};

/// @param error  why the expert could not be fetched; empty if all its bytes are in the sink and valid
using expert_fetch_done = std::function<void(std::string error)>;

/// Fetches an expert from another worker. Calls `done` exactly once, on any thread and within a bounded time;
/// does not use the sink after that.
using expert_fetch =
    std::function<void(expert_id expert, std::shared_ptr<expert_sink> sink, expert_fetch_done done)>;

class expert_engine {
 public:
  virtual ~expert_engine() = default;
  virtual const model_shape& shape() const = 0;
  virtual std::uint64_t expert_bytes() const = 0; ///< packed size of the largest expert

  /// Drops all experts that are not in `experts`, then loads the missing ones, so that the engine never holds
  /// more than an order names. Steps continue meanwhile. Calls `done` once.
  /// @param fetch  tried for each expert before the files, one expert at a time; empty: files only
  virtual void host(std::vector<expert_id> experts, expert_fetch fetch, expert_load_done done) = 0;

  /// A loaded expert for another engine; null if it is not loaded, or if other engines cannot use it.
  virtual std::shared_ptr<const expert_image> image(expert_id expert) const = 0;

  /// Computes one grouped step; all its experts are hosted.
  virtual void submit(expert_step step, expert_done done) = 0;
};

} // namespace troupe
