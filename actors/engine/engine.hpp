// Engines compute, actors decide. An actor submits a step and goes on; the thread that has computed it, the
// engine's own or the one that ran the actor (compute_queue.hpp), calls `done`, which does nothing but post a
// message to the actor, and the actor may then run on that thread (actor_runner.hpp). Two implementations of
// each interface: model_attention_engine.hpp and model_expert_engine.hpp (kernels), and simulated_engine.hpp
// (virtual time, for tests and simulation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/attention/generation_messages.hpp"
#include "actors/ids.hpp"
#include "actors/transport/wire/payload.hpp"

namespace troupe {

/// What the actors must know of a model; nothing about arithmetic.
struct model_shape {
  std::string fingerprint;    ///< names the model's content; members of a cluster share it
  std::string numerics_class; ///< replicas and fail-over targets share it
  uint32_t vocab_size = 0;
  uint32_t max_model_len = 0;          ///< positions that the model was made for
  uint32_t row_bytes = 0;              ///< of one activation row: hidden × dtype
  uint32_t num_topk = 0;               ///< experts per token (the widest layer's)
  std::vector<uint32_t> layer_experts; ///< [layers] experts of each decoder layer, 0 for a dense one
};

// ---------------------------------------------------------------------------------------------------------------
// Attention side

/// What sampling needs of one sequence. Shared by the actor and the step in flight; the actor does not touch
/// it between submit and done.
struct sequence_tokens {
  sequence_id id;
  sampling_params sampling;
  uint32_t num_prompt = 0;     ///< tokens [0, num_prompt) are the prompt
  std::vector<int32_t> tokens; ///< prompt, then everything emitted
};

/// The rows of one sequence in a micro-batch: positions [first_position, first_position + num_rows).
struct step_sequence {
  std::shared_ptr<const sequence_tokens> sequence;
  std::vector<uint32_t> block_table; ///< KV blocks of positions 0.., enough for all rows of the step
  uint32_t first_position = 0;
  uint32_t num_rows = 0;
  bool sample = false; ///< the last row ends the known tokens: sample the next one
  /// Report logprobs of the known tokens behind these rows (prompt_logprobs); [first_position + 1 ..].
  bool prompt_logprobs = false;
};

/// One flat batch on its way through the layers. The actor fills `sequences`; `state` is the engine's own
/// (residual stream, router weights, workspace) and lives as long as the batch.
struct micro_batch {
  struct engine_state {
    virtual ~engine_state() = default;
  };

  uint32_t number = 0; ///< the actor's name for it
  uint64_t trace = 0;  ///< its key in the timeline; 0: it is not traced
  std::vector<step_sequence> sequences;
  std::unique_ptr<engine_state> state;
};

using micro_batch_ptr = std::shared_ptr<micro_batch>;

/// Rows that a MoE layer wants computed: the token → expert table, sorted by expert.
struct moe_dispatch {
  uint32_t layer = 0;
  uint32_t num_rows = 0;
  uint32_t num_topk = 0;
  payload activations; ///< [num_rows, hidden], the model's dtype
  std::vector<uint32_t>
      offsets; ///< [experts + 1]: the slots of expert e are slots[offsets[e] .. offsets[e + 1])
  std::vector<uint32_t> slots; ///< [num_rows × num_topk]: row × num_topk + place in the row's top-k
};

/// Expert outputs on their way back: output row i of `outputs` belongs to `slots[i]`.
struct expert_outputs {
  /// In place of a slot: another host answered it first, and this row is not needed.
  static constexpr uint32_t unused = ~uint32_t{0};

  payload outputs;             ///< [slots.size(), hidden]
  std::vector<uint32_t> slots; ///< row × num_topk + place
};

/// What sampling gave for step_sequence `sequence`.
struct sampled_sequence {
  uint32_t sequence = 0; ///< index into micro_batch::sequences
  bool has_token = false;
  bool is_broken = false; ///< the logits were not numbers, and `token` means nothing
  generated_token token;
  std::vector<generated_token> prompt_logprobs;
};

/// Where a step stopped: at a MoE layer, or at the end with samples.
struct attention_result {
  bool finished = false;
  moe_dispatch dispatch;                 ///< when not finished
  std::vector<sampled_sequence> samples; ///< when finished
  uint64_t compute_ns = 0;
  std::string error; ///< not empty: the step failed and the micro-batch with it
};

/// Called once per step, on the thread that has computed it; must only post a result.
using attention_done = std::function<void(micro_batch_ptr, attention_result)>;

class attention_engine {
 public:
  virtual ~attention_engine() = default;
  virtual const model_shape& shape() const = 0;
  virtual uint32_t block_tokens() const = 0; ///< tokens per KV block
  virtual uint32_t num_blocks() const = 0;   ///< KV blocks in the budget

  /// Embeds the batch and runs it to its first MoE layer, or to the end.
  virtual void begin(micro_batch_ptr batch, attention_done done) = 0;

  /// Combines the answers to the last dispatch in top-k order (every slot exactly once) and runs on.
  virtual void resume(micro_batch_ptr batch, std::vector<expert_outputs> outputs, attention_done done) = 0;
};

// ---------------------------------------------------------------------------------------------------------------
// Expert side

/// Rows of one expert within a step: row `rows[i]` of `activations` gives row `first_output + i` of the
/// output.
struct expert_rows {
  uint32_t expert = 0;
  uint32_t batch = 0;        ///< index into expert_step::batches
  uint32_t first_output = 0; ///< first row in that batch's output
  std::vector<uint32_t> rows;
};

/// One grouped GEMM: all queued rows of a layer, from any number of expert batches.
struct expert_step {
  struct source {
    uint32_t num_outputs = 0;
    payload activations; ///< [rows, hidden]
  };

  uint32_t layer = 0;
  uint64_t trace = 0; ///< its name in the timeline; 0: it is not traced
  std::vector<source> batches;
  std::vector<expert_rows> work; ///< sorted by expert
};

struct expert_step_result {
  std::vector<payload> outputs; ///< one per expert_step::batches, [num_outputs, hidden]
  uint64_t compute_ns = 0;
  std::string error; ///< not empty: nothing was computed
};

using expert_done = std::function<void(expert_step_result)>;

/// Which experts are loaded after a change, and why others are not.
struct expert_load_result {
  std::vector<expert_id> hosted;
  std::string error;
};

using expert_load_done = std::function<void(expert_load_result)>;

/// An expert that an engine holds, as bytes that another engine of its kind takes. Its bytes stay as long as
/// this does, dropped or not. Immutable; any thread.
class expert_image {
 public:
  virtual ~expert_image() = default;

  /// Engines that agree on it, and on the model and its numerics class, may exchange the bytes.
  virtual const std::string& layout() const = 0;
  virtual uint64_t num_bytes() const = 0;
  /// Of all bytes. Reads them.
  virtual uint64_t checksum() const = 0;
  /// Copies bytes from `offset` on; they lie inside.
  virtual void read(uint64_t offset, std::span<std::byte> out) const = 0;
};

/// Where an engine wants the bytes of an expert that come from another one. Used by one thread at a time.
class expert_sink {
 public:
  virtual ~expert_sink() = default;

  /// Makes room; what was written before is forgotten.
  /// @returns why this engine cannot use such bytes; empty: it can
  virtual std::string begin(const std::string& layout, uint64_t num_bytes) = 0;
  /// Bytes from `offset` on, within the room.
  virtual void write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Of the whole room, as `expert_image::checksum`.
  virtual uint64_t checksum() const = 0;
};

/// Why an expert could not be had; empty: all its bytes are in the sink, and right.
using expert_fetch_done = std::function<void(std::string error)>;

/// Gets an expert from elsewhere. Calls `done` exactly once, on any thread, before long; touches the sink no
/// more from then on.
using expert_fetch =
    std::function<void(expert_id expert, std::shared_ptr<expert_sink> sink, expert_fetch_done done)>;

class expert_engine {
 public:
  virtual ~expert_engine() = default;
  virtual const model_shape& shape() const = 0;
  virtual uint64_t expert_bytes() const = 0; ///< packed size of the largest expert

  /// Drops what is not in `experts`, then loads what is missing of it, so that no more is held than an order
  /// names; steps go on meanwhile. Reports once.
  /// @param fetch  asked for each expert before files are, one after another; none: files only
  virtual void host(std::vector<expert_id> experts, expert_fetch fetch, expert_load_done done) = 0;

  /// An expert that is loaded, for another engine; null where it is not, or where it is of no use to others.
  virtual std::shared_ptr<const expert_image> image(expert_id expert) const = 0;

  /// Computes one grouped step; all its experts are hosted.
  virtual void submit(expert_step step, expert_done done) = 0;
};

} // namespace troupe
