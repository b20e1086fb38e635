// The layout of keys and values of past tokens in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/annotations.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// One layer's blocks: [block]{keys [kv_head][token][head_dim], values likewise; with int8, scales of the
/// keys [kv_head][token] and of the values, f32}. A token's head is contiguous, so that a warp reads it with
/// 16-byte loads. A block is contiguous, so that it is copied, or swapped to pinned memory, as one piece. A
/// latent layer has keys only: a value is where its key begins.
struct kv_layer {
  std::byte* data = nullptr;
  std::size_t blocks = 0;
  /// 16 or 32.
  std::size_t block_tokens = 16;
  std::size_t kv_heads = 0;
  /// Numbers of a key: 8 to 256, latent 8 to 640, a multiple of 8.
  std::size_t head_dim = 0;
  /// bf16, or int8 with a scale per token and head: max |x| / 127, integers rounded to nearest even.
  dtype type = dtype::bf16;
  /// Not 0: the layer is latent (kv_cache.hpp), in bf16, and a value is the first `value_dim` numbers of its
  /// key, 8 to 512, a multiple of 8.
  std::size_t value_dim = 0;

  TROUPE_BOTH constexpr bool is_latent() const { return value_dim != 0; }

  /// Numbers of a value.
  TROUPE_BOTH constexpr std::size_t value_width() const { return is_latent() ? value_dim : head_dim; }

  TROUPE_BOTH constexpr std::size_t head_bytes() const {
    return type == dtype::int8 ? head_dim : 2 * head_dim;
  }

  TROUPE_BOTH constexpr std::size_t scale_bytes() const { return type == dtype::int8 ? sizeof(float) : 0; }

  TROUPE_BOTH constexpr std::size_t block_bytes() const {
    return (is_latent() ? 1 : 2) * kv_heads * block_tokens * (head_bytes() + scale_bytes());
  }

  /// First byte of the key of token `token` in one head, from the start of its block.
  TROUPE_BOTH constexpr std::size_t key_in_block(std::size_t token, std::size_t kv_head) const {
    return (kv_head * block_tokens + token) * head_bytes();
  }

  TROUPE_BOTH constexpr std::size_t value_in_block(std::size_t token, std::size_t kv_head) const {
    return key_in_block(token, is_latent() ? kv_head : kv_heads + kv_head);
  }

  /// The same for the scales of its key and value.
  TROUPE_BOTH constexpr std::size_t key_scale_in_block(std::size_t token, std::size_t kv_head) const {
    return 2 * kv_heads * block_tokens * head_bytes() + (kv_head * block_tokens + token) * sizeof(float);
  }

  TROUPE_BOTH constexpr std::size_t value_scale_in_block(std::size_t token, std::size_t kv_head) const {
    return key_scale_in_block(token, kv_heads + kv_head);
  }

  /// The same for token `slot` (block · block_tokens + token in the block), from the start of the layer.
  TROUPE_BOTH constexpr std::size_t key_offset(std::size_t slot, std::size_t kv_head) const {
    return slot / block_tokens * block_bytes() + key_in_block(slot % block_tokens, kv_head);
  }

  TROUPE_BOTH constexpr std::size_t value_offset(std::size_t slot, std::size_t kv_head) const {
    return slot / block_tokens * block_bytes() + value_in_block(slot % block_tokens, kv_head);
  }

  TROUPE_BOTH constexpr std::size_t key_scale_offset(std::size_t slot, std::size_t kv_head) const {
    return slot / block_tokens * block_bytes() + key_scale_in_block(slot % block_tokens, kv_head);
  }

  TROUPE_BOTH constexpr std::size_t value_scale_offset(std::size_t slot, std::size_t kv_head) const {
    return slot / block_tokens * block_bytes() + value_scale_in_block(slot % block_tokens, kv_head);
  }
};

} // namespace troupe::kernels::cuda
