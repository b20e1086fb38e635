// The KV cache: keys and values of past tokens, in blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// Consecutive layers with caches of one shape.
struct kv_layer_group {
  std::size_t layers = 0;
  std::size_t kv_heads = 0;
  /// Numbers of a key: 8 to 256, latent 8 to 640, a multiple of 8.
  std::size_t head_dim = 0;
  /// f32, bf16, or (not if latent) int8 with a scale per token and head.
  dtype type = dtype::bf16;
  /// 0: a value is stored beside its key and as wide. Otherwise the cache is latent, as multi-head latent
  /// attention needs it: one KV head, and a value is the first `value_dim` numbers of its key (8 to 512, a
  /// multiple of 8), which are stored once.
  std::size_t value_dim = 0;

  friend bool operator==(const kv_layer_group&, const kv_layer_group&) = default;

  bool is_latent() const { return value_dim != 0; }

  /// Numbers of a value.
  std::size_t value_width() const { return is_latent() ? value_dim : head_dim; }

  /// Bytes of one token in one layer of the group, padding included: `kv_heads` times (head_dim padded to 32
  /// for keys + head_dim padded to 16 for values, unless latent) elements; int8 adds two FP32 scales.
  std::size_t bytes_per_token() const;
};

struct kv_cache_config {
  std::vector<kv_layer_group> groups;
  /// Tokens of a block: 16 or 32.
  std::size_t block_tokens = 16;
  /// [layers]: the place of each layer in a block; empty: each has its own. Layers of one place have one
  /// shape and hold their tokens in different blocks.
  std::vector<std::size_t> places{};

  std::size_t layers() const;
  /// Bytes of one token over all places.
  std::size_t bytes_per_token() const;

  std::size_t bytes_per_block() const { return bytes_per_token() * block_tokens; }
};

/// Storage only: blocks are allocated elsewhere. A block id holds the same tokens in every layer, or in one
/// layer of each place.
///
/// Layout, per layer, block and KV head, in tiles of 16 tokens: keys transposed, so that a tile row holds one
/// dimension (bf16: a pair of dimensions) of 16 tokens, [dim / 2][16 tokens][2] in bf16 and [dim][16] in f32;
/// values [16 tokens / 2][dim][2] in bf16 (pairs of tokens) and [16][dim] in f32. In bf16 these are the
/// operands of AMX tiles. An int8 tile is like f32, followed by the 16 tokens' FP32 scales. A token's head is
/// quantized like rows of integer products: scale = max |x| / 127, rounded to nearest even; a NaN or an
/// infinity makes the scale NaN. A latent layer has the tiles of keys only.
class kv_cache {
 public:
  kv_cache() = default;

  /// @throws kernel_error  shapes out of range; std::bad_alloc
  kv_cache(const kv_cache_config& config, std::size_t blocks);

  const kv_cache_config& config() const { return config_; }

  std::size_t blocks() const { return blocks_; }

  /// Copies a block in every layer: for copy-on-write of forked sequences.
  void copy_block(std::uint32_t from, std::uint32_t to);

  const kv_layer_group& group_of(std::size_t layer) const { return config_.groups[layer_group_[layer]]; }

  /// First byte of a block's part for one KV head: key tiles, then value tiles.
  std::byte* head_block(std::size_t layer, std::uint32_t block, std::size_t kv_head);
  const std::byte* head_block(std::size_t layer, std::uint32_t block, std::size_t kv_head) const;

  /// Bytes of that part, and of the keys in it.
  std::size_t head_block_bytes(std::size_t layer) const;
  std::size_t head_key_bytes(std::size_t layer) const;

 private:
  kv_cache_config config_;
  std::size_t blocks_ = 0;
  std::vector<std::size_t> layer_group_;
  std::vector<std::size_t> layer_offset_;
  buffer storage_;
};

struct kv_write_args {
  kv_cache* cache = nullptr;
  std::size_t layer = 0;
  /// [rows, kv_heads · head_dim] each, f32 or bf16; rounded or quantized to the cache's type. Keys after
  /// RoPE.
  const_tensor_view keys;
  /// Empty for a latent layer.
  const_tensor_view values;
  /// Destination of each row: block · block_tokens + offset in the block. No slot twice.
  std::span<const std::uint32_t> slots;
};

/// Writes one layer's keys and values of each row to its slot.
void kv_write(context& ctx, const kv_write_args& args);

/// Reads one token back as f32, [kv_heads · head_dim] each: for tests, and for moving sequences, which is not
/// implemented yet. A latent layer has no values to read; `value` is left alone.
void kv_read(const kv_cache& cache, std::size_t layer, std::uint32_t slot, std::span<float> key,
             std::span<float> value);

} // namespace troupe::kernels
