// Moves keys and values of one KV head through a block's shared memory, 32 tokens at a time.
//
// A ring of chunks: while one is multiplied, the next two are copied by cp.async, up to 32 KiB per block for
// heads of 128 dimensions in BF16. Rows are padded by 16 bytes, so that the eight rows of a matrix that
// ldmatrix loads are in different banks. int8 chunks are copied unchanged and widened to BF16, exactly, when
// they are used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/dequantize.hpp"
#include "kernels/cuda/kv_layout.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

inline constexpr unsigned chunk_keys = 32;
inline constexpr unsigned chunk_stages = 3; // of the ring
inline constexpr unsigned piece_dims = 8;   // of one copy

/// A chunk in the layout of the tensor cores.
template <unsigned Dims>
struct bf16_chunk {
  static constexpr unsigned stride = Dims + 8;

  alignas(16) bfloat16 keys[chunk_keys][stride];
  alignas(16) bfloat16 values[chunk_keys][stride];
};

/// A chunk of an int8 cache as stored.
template <unsigned Dims>
struct int8_chunk {
  alignas(16) std::int8_t keys[chunk_keys][Dims];
  alignas(16) std::int8_t values[chunk_keys][Dims];
  float key_scales[chunk_keys];
  float value_scales[chunk_keys];
};

/// A block's shared memory for keys of `Dims` dimensions (64, 128 or 256; heads may have fewer).
template <unsigned Dims, bool IsInt8>
struct kv_ring;

template <unsigned Dims>
struct kv_ring<Dims, false> {
  bf16_chunk<Dims> stages[chunk_stages];
};

template <unsigned Dims>
struct kv_ring<Dims, true> {
  int8_chunk<Dims> stages[chunk_stages];
  bf16_chunk<Dims> widened;
};

/// The keys that a block loads: of one sequence and one KV head.
struct kv_range {
  const std::uint32_t* table = nullptr; ///< block of each block_tokens positions
  std::size_t kv_head = 0;
  std::uint32_t first = 0; ///< positions below it, and from `end` on, are read as zeros
  std::uint32_t end = 0;
  unsigned block_shift = 0; ///< log2 of block_tokens

  /// For a position that is not wanted, the nearest wanted one: its address serves without branches, so that
  /// the table's entries are loaded in parallel, and is not read.
  __device__ std::uint32_t nearest(std::uint32_t key) const {
    const std::uint32_t from = key > first ? key : first;
    return from < end ? from : end - 1;
  }

  __device__ std::uint32_t token_of(std::uint32_t key) const { return key & ((1U << block_shift) - 1); }

  const __device__ std::byte* block_of(const kv_layer& cache, std::uint32_t key) const {
    const std::uint32_t block = table[key >> block_shift];
    TROUPE_DEVICE_CHECK(block < cache.blocks);
    return cache.data + block * cache.block_bytes();
  }
};

/// Starts copying positions chunk to chunk + 31, by all `Threads` threads of the block together; what is
/// beyond the head's dimensions becomes 0.
template <unsigned Threads, unsigned Dims, bool IsInt8>
__device__ void fetch_chunk(const kv_layer& cache, const kv_range& range, std::uint32_t chunk, unsigned stage,
                            kv_ring<Dims, IsInt8>& ring) {
  constexpr unsigned pieces = Dims / piece_dims;
  static_assert(chunk_keys * pieces % Threads == 0);
  constexpr unsigned piece_bytes = IsInt8 ? piece_dims : piece_dims * sizeof(bfloat16);
  auto& to = ring.stages[stage];
  const std::size_t to_value = cache.value_in_block(0, 0);
  TROUPE_UNROLL
  for (unsigned round = 0; round < chunk_keys * pieces / Threads; ++round) {
    const unsigned i = round * Threads + threadIdx.x;
    const unsigned k = i / pieces;
    const unsigned dim = i % pieces * piece_dims;
    const std::uint32_t key = range.nearest(chunk + k);
    const bool wanted = key == chunk + k && dim < cache.head_dim;
    const std::byte* at = range.block_of(cache, key) + cache.key_in_block(range.token_of(key), range.kv_head)
                          + (wanted ? dim * (piece_bytes / piece_dims) : 0);
    copy_async<piece_bytes>(&to.keys[k][dim], at, wanted);
    copy_async<piece_bytes>(&to.values[k][dim], at + to_value, wanted);
  }
  if constexpr (IsInt8) {
    if (threadIdx.x < chunk_keys) {
      const std::uint32_t key = range.nearest(chunk + threadIdx.x);
      const bool wanted = key == chunk + threadIdx.x;
      const std::byte* block = range.block_of(cache, key);
      copy_async<sizeof(float)>(&to.key_scales[threadIdx.x],
                                block + cache.key_scale_in_block(range.token_of(key), range.kv_head), wanted);
      copy_async<sizeof(float)>(&to.value_scales[threadIdx.x],
                                block + cache.value_scale_in_block(range.token_of(key), range.kv_head),
                                wanted);
    }
  }
}

/// One piece of an int8 chunk.
__device__ inline void widen_piece(const std::int8_t* from, bfloat16* to) {
  const bits64 bytes = *reinterpret_cast<const bits64*>(from);
  const bits64 lower = int8_in_order(bytes.word[0]);
  const bits64 upper = int8_in_order(bytes.word[1]);
  *reinterpret_cast<bits128*>(to) = {{lower.word[0], lower.word[1], upper.word[0], upper.word[1]}};
}

/// Converts an int8 chunk to BF16, by all threads of the block.
template <unsigned Threads, unsigned Dims>
__device__ void widen_chunk(const int8_chunk<Dims>& from, bf16_chunk<Dims>& to) {
  constexpr unsigned pieces = Dims / piece_dims;
  TROUPE_UNROLL
  for (unsigned round = 0; round < chunk_keys * pieces / Threads; ++round) {
    const unsigned i = round * Threads + threadIdx.x;
    const unsigned k = i / pieces;
    const unsigned dim = i % pieces * piece_dims;
    widen_piece(&from.keys[k][dim], &to.keys[k][dim]);
    widen_piece(&from.values[k][dim], &to.values[k][dim]);
  }
}

} // namespace troupe::kernels::cuda
