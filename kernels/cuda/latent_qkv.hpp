// Processes queries and latents between their products and multi-head latent attention, in one kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kv_layout.hpp"
#include "kernels/rope.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct latent_qkv_args {
  std::size_t rows = 0;
  std::size_t heads = 0;
  /// Numbers of a query that do not rotate, and that do; the former come first. Together at most
  /// `most_latent_dims`.
  std::size_t nope_dim = 0;
  std::size_t rope_dim = 0;
  /// [rows, heads · (nope_dim + rope_dim)], f32, dense.
  const float* queries = nullptr;
  /// [rows, latent + rope_dim], f32, dense; the latent is the cache's `value_dim`.
  const float* keys = nullptr;
  /// [latent], f32: of the latent's RMS norm.
  const float* norm = nullptr;
  float epsilon = 1e-6F;
  /// [num_positions, rope_dim / 2], f32 (`kernels::rope_table`).
  const float* cosines = nullptr;
  const float* sines = nullptr;
  std::size_t num_positions = 0;
  rope_style style = rope_style::interleaved;
  /// [rows], below `num_positions`.
  const std::uint32_t* positions = nullptr;
  /// [rows]: destination in the cache; no slot twice.
  const std::uint32_t* slots = nullptr;
  /// Latent, with keys of latent + rope_dim numbers.
  kv_layer cache;
  /// [rows, heads · nope_dim], bf16, dense: what is absorbed.
  bfloat16* still = nullptr;
  /// [rows, heads · (latent + rope_dim)], bf16, dense: the rotated part of each head is written behind the
  /// place of its absorbed part.
  bfloat16* absorbed = nullptr;
};

/// Norm and rotation in FP32; each result is rounded once. A row's bits depend on the row alone.
void finish_latent_qkv(const stream& on, const latent_qkv_args& args);

} // namespace troupe::kernels::cuda
