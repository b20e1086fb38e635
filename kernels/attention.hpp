// Causal attention of a flat batch of rows over the paged KV cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/context.hpp"
#include "kernels/kv_cache.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// The cached tokens of one sequence: token p lies in block `blocks[p / block_tokens]`.
struct attention_sequence {
  std::span<const std::uint32_t> blocks;
};

/// One query row. Its own key and value must be in the cache already.
struct attention_row {
  /// Index into `attention_args::sequences`.
  std::uint32_t sequence = 0;
  /// The row sees keys 0 to position, inclusive (or the last `sliding_window` of them).
  std::uint32_t position = 0;
};

struct attention_args {
  const kv_cache* cache = nullptr;
  std::size_t layer = 0;
  /// [rows, heads · head_dim], f32 or bf16, after RoPE; rounded to bf16 unless the cache is f32.
  const_tensor_view query;
  std::size_t heads = 0;
  /// One per query row. Consecutive rows of a sequence in rising positions share work; any order is correct.
  std::span<const attention_row> rows;
  std::span<const attention_sequence> sequences;
  /// Multiplied with q · k; usually 1 / √head_dim.
  float scale = 1.0F;
  /// Most visible keys, the row's own included; 0: all.
  std::size_t sliding_window = 0;
  /// A row sees only keys of its own chunk (Llama 4): key j and position p with j / chunk = p / chunk; 0:
  /// all. Not together with a sliding window.
  std::size_t chunk = 0;
  /// [heads], f32: a logit per head that is part of the softmax and has no value (gpt-oss); null: none.
  const float* sinks = nullptr;
  /// [rows, heads · head_dim], or heads · value_dim of a latent layer; f32 or bf16.
  tensor_view output;
};

/// softmax(scale · q kᵀ) v, heads / kv_heads query heads per KV head.
///
/// A row's bits depend only on its query and its visible keys. Chunks of 32 keys are processed in order from
/// position 0; a chunk without a visible key is skipped. q · k is computed as in `gemm` (bf16 cache: AMX's
/// order; f32: one FMA per dimension). Per chunk: m' = max(m, scores), p = exp(s − m'), l = fma(l, exp(m −
/// m'), Σ p) with the sum in 16 lanes and the fixed tree. bf16: p rounded to bf16, acc = fma(acc, exp(m −
/// m'), 0 + (even + odd)) with even and odd the FMA chains over the visible keys of even and odd position.
/// f32: acc · exp(m − m'), then one FMA per visible key. Last acc / l. An int8 cache is treated as a bf16 one
/// of its integers: q · k times (scale · the key's scale) is the score, and p times the value's scale is
/// rounded to bf16. Invisible keys never affect a row, even NaN.
///
/// A latent layer (`kv_layer_group`) is no exception: v is the first value_dim numbers of k. In the absorbed
/// form of multi-head latent attention, queries are [q W_kb, rotated q], keys [c, rotated k], and the output
/// is multiplied with W_vb (`head_products`); then `scale` is that of the expanded form.
/// @source DeepSeek-V2 § 2.1
/// @threads all; split over (rows of a sequence, KV head; latent: part of the heads)
void attention(context& ctx, const attention_args& args);

} // namespace troupe::kernels
