// Looks up the embeddings of token ids.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// output[i] = table[tokens[i]] · scale; for int8 rows table[tokens[i]] · (row_scales[tokens[i]] · scale).
///
/// @param table   [vocab, hidden], f32, bf16 or f16, row-major as in the checkpoint, or int8
/// @param tokens  ids below vocab
/// @param output  [tokens.size(), hidden], f32 or bf16
/// @param row_scales  [vocab], for int8 rows; null otherwise
/// @param scale   1, or √hidden for models with that factor; multiplications are in f32
void embed(context& ctx, const_tensor_view table, std::span<const std::uint32_t> tokens, tensor_view output,
           float scale = 1.0F, const float* row_scales = nullptr);

/// rows[i] += table[positions[i]]: learned positions. The sum is in f32, rounded once per element.
///
/// @param table      [number of positions, hidden], f32, row-major
/// @param positions  below the number of positions
/// @param rows       [positions.size(), hidden], f32
void add_positions(context& ctx, const_tensor_view table, std::span<const std::uint32_t> positions,
                   tensor_view rows);

} // namespace troupe::kernels
