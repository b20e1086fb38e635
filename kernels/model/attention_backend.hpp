// The interface between engines and the attention side of a model on a device.
#pragma once

#include "kernels/model/config.hpp"
#include "kernels/model/kv_tables.hpp"
#include "kernels/model/micro_batch.hpp"
#include "kernels/sampling.hpp"
#include "kernels/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::model {

/// Rows that wait for the experts of a layer: the token → expert table, sorted by expert. In host memory.
struct routed_rows {
  std::size_t layer = 0;
  std::size_t num_rows = 0;
  /// Experts per row of that layer, and in all.
  std::size_t num_topk = 0;
  std::size_t num_experts = 0;
  /// [num_experts + 1]: expert e has `entries` number offsets[e] to offsets[e + 1].
  std::span<const std::uint32_t> offsets;
  /// [num_rows · num_topk]: row · num_topk + place in the row's top-k; rows rise within an expert.
  std::span<const std::uint32_t> entries;
  /// Duration of the choice of experts; 0: not measured.
  std::uint64_t router_ns = 0;
};

/// The working set of one micro-batch in flight, made by the backend that uses it. Its buffers grow to the
/// largest micro-batch seen and stay, so it is reused. Any thread may use it, one at a time. It may outlive
/// its backend; then it may only be destroyed.
class attention_pass {
 public:
  virtual ~attention_pass() = default;

  /// Valid after pause::experts, until the pass continues.
  virtual routed_rows routed() const = 0;

  /// Copies the experts' inputs. The same after each pause::experts until the pass continues.
  /// @param out  [num_rows, hidden] of the backend's type without gaps; host memory, pinned or not
  virtual void read_rows(std::byte* out) const = 0;
};

/// What to compute from the logits of some rows of a pass. All spans are host memory, borrowed for the call.
struct token_requests {
  /// Rows of the micro-batch, in any order: row i of the logits belongs to rows[i].
  std::span<const std::uint32_t> rows;
  /// Tokens to draw, as in kernels::sample; `logits_row` is an index into `rows`.
  std::span<const kernels::sampling_row> drawn;
  std::span<kernels::sampled_token> drawn_tokens; ///< [drawn.size()]
  /// Known tokens, to report on as in kernels::token_logprobs.
  std::span<const kernels::logprob_row> known;
  std::span<kernels::sampled_token> known_tokens; ///< [known.size()]
};

/// Weights of the attention side (embeddings, norms, attention, routers, shared experts, dense MLPs, LM head)
/// and the KV cache, on one device. The bits of a sequence's logits do not depend on the rest of its
/// micro-batches, the chunks of its prefill, or the places of its blocks.
///
/// Calls return when their results are readable: a backend waits for its device. One thread at a time may
/// call; several passes may be in progress.
/// @throws std::exception  a device failed or memory ran out: the pass may then only be used for `begin`.
/// Rows that break a rule of `begin` are programming errors and may end the process
class attention_backend {
 public:
  virtual ~attention_backend() = default;

  virtual const model_config& config() const = 0;

  /// Type of the experts' input and output rows: f32 or bf16.
  virtual kernels::dtype type() const = 0;

  /// Most positions of a sequence.
  virtual std::size_t max_positions() const = 0;

  /// Memory of the weights.
  virtual std::size_t num_bytes() const = 0;

  /// How far back the layers of each block table of a sequence see.
  virtual std::vector<kv_reach> kv_reaches() const { return {{}}; }

  /// Memory of a KV block over all layers of a table.
  /// @param block_tokens  16 or 32
  virtual std::size_t kv_block_bytes(std::size_t block_tokens) const = 0;

  /// Allocates the KV cache, blocks 0 to `blocks` − 1. Called once, before the first `begin`.
  /// @throws std::bad_alloc
  virtual void reserve_kv(std::size_t block_tokens, std::size_t blocks) = 0;

  /// Allocates no device memory yet.
  /// @throws std::bad_alloc
  virtual std::unique_ptr<attention_pass> make_pass() = 0;

  /// Embeds a micro-batch and runs to the first routed layer.
  ///
  /// @param batch  tokens below vocab_size, positions below max_positions(), at least one row; borrowed
  /// @param pass   of this backend
  /// @returns experts, or done for a model without routed layers
  virtual pause begin(const micro_batch& batch, attention_pass& pass) = 0;

  /// Computes, or starts, the work that needs no expert's answer (a shared expert), so that it overlaps with
  /// waiting. Optional between a pause and its `resume`, with the same result. `resume` reports a failure of
  /// the device.
  virtual void overlap(attention_pass& pass) = 0;

  /// Combines the experts' outputs in top-k order and continues.
  ///
  /// @param slot_rows  [num_rows · num_topk]: output of (row, place), [hidden] elements of `type()` each,
  /// anywhere in host memory, aligned to their type; borrowed
  virtual pause resume(std::span<const std::byte* const> slot_rows, attention_pass& pass) = 0;

  /// Final norm and LM head for some rows of a finished pass.
  ///
  /// @param rows  of the micro-batch, any order
  /// @param out   [rows.size(), vocab_size], f32, host memory
  virtual void logits(attention_pass& pass, std::span<const std::uint32_t> rows,
                      kernels::tensor_view out) = 0;

  /// The same, followed by the requested computation; the logits need not leave the device.
  virtual void sample(attention_pass& pass, const token_requests& wanted) = 0;

  /// Copies whole KV blocks in order, none onto itself, ahead of the next step. A forked sequence continues
  /// on its copies with the bits of the original.
  virtual void copy_blocks(std::span<const block_copy> copies) = 0;
};

} // namespace troupe::model
