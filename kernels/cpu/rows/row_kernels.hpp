// Kernels on single rows: norms, activations, RoPE, softmax, sums. Included only by the kernels of each
// instruction set.
#pragma once

#include <limits>

#include "kernels/cpu/gemm/fma.hpp"
#include "kernels/cpu/simd/math.hpp"
#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Calls `function` with the row as `const float*` or `const bfloat16*`.
template <class Function>
TROUPE_INLINE auto with_type(const std::byte* row, dtype type, const Function& function) {
  return type == dtype::f32 ? function(reinterpret_cast<const float*>(row))
                            : function(reinterpret_cast<const bfloat16*>(row));
}

template <class Function>
TROUPE_INLINE auto with_type(std::byte* row, dtype type, const Function& function) {
  return type == dtype::f32 ? function(reinterpret_cast<float*>(row))
                            : function(reinterpret_cast<bfloat16*>(row));
}

/// Calls `function` with the activation as a compile-time constant.
template <class Function>
TROUPE_INLINE void with_activation(activation kind, const Function& function) {
  switch (kind) {
  case activation::silu:
    function.template operator()<activation::silu>();
    break;
  case activation::gelu_tanh:
    function.template operator()<activation::gelu_tanh>();
    break;
  case activation::gelu_erf:
    function.template operator()<activation::gelu_erf>();
    break;
  case activation::clamped_glu:
    function.template operator()<activation::clamped_glu>();
    break;
  }
}

TROUPE_FLAT void finish_rows(const finish_block& block) {
  for (std::size_t r = 0; r < block.rows; ++r) {
    if (block.fetch != nullptr)
      block.fetch->step();
    std::byte* out = block.out != nullptr ? block.out[r] + block.offset : block.first + r * block.stride;
    const float* sum = block.sum + r * 16;
    with_type(out, block.type, [&](auto* to) {
      for_each_16(block.columns, [&](std::size_t i, std::size_t n) {
        v16 y = load_some(sum + i / 16 * block.panel_stride, n);
        if (block.bias != nullptr)
          y = add(y, load_some(block.bias + i, n));
        if (block.accumulate)
          y = fma(splat(block.factor), y, load_some(to + i, n));
        if (n == 16)
          store_result16(to + i, y);
        else
          store_tail(to + i, n, y);
      });
    });
  }
}

/// Stores 16 BF16 values of a row for products from column `column` on; those past `count` become zero.
TROUPE_INLINE void store_product_columns(const v16& h, std::size_t count, std::size_t column, std::byte* out,
                                         row_layout layout) {
  if (layout == row_layout::bf16_tiles || layout == row_layout::bf16) {
    auto* to =
        layout == row_layout::bf16
            ? reinterpret_cast<bfloat16*>(out) + column
            : reinterpret_cast<bfloat16*>(out + column / block_k * panel_block_bytes) + column % block_k;
    store_result16(to, h);
    for (std::size_t j = count; j < 16; ++j)
      to[j] = {};
    return;
  }
  if (layout == row_layout::bf16_dots) {
    bfloat16 values[16];
    store_result16(values, h);
    auto* to = reinterpret_cast<bfloat16*>(out) + column / block_k * block_k + column % block_k / 2;
#if defined(TROUPE_ISA_AVX512)
    if (count == 16) {
      const __m256i order = _mm256_set_epi16(13, 15, 9, 11, 5, 7, 1, 3, 12, 14, 8, 10, 4, 6, 0, 2);
      const __m256i halves =
          _mm256_permutexvar_epi16(order, _mm256_loadu_si256(reinterpret_cast<__m256i*>(values)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(halves));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + half_block), _mm256_extracti128_si256(halves, 1));
      return;
    }
#endif
    for (std::size_t j = 0; j < 16; ++j)
      to[j % 2 * half_block + (j / 2 ^ 1)] = j < count ? values[j] : bfloat16{};
    return;
  }
  float values[16];
  store16(values, each_part([&](std::size_t i) { return round_to_bf16(h.part[i]); }));
  float* to = reinterpret_cast<float*>(out) + product_index(column, dtype::bf16);
  for (std::size_t j = 0; j < 16; j += 2) {
    to[j / 2] = j < count ? values[j] : 0.0F;
    to[half_block + j / 2] = j + 1 < count ? values[j + 1] : 0.0F;
  }
}

TROUPE_FLAT void activate_rows(const activation_block& b) {
  with_activation(b.kind, [&]<activation Kind>() {
    for (std::size_t r = 0; r < b.rows; ++r) {
      if (b.fetch != nullptr)
        b.fetch->step();
      std::byte* out = b.out + r / 16 * b.tile_stride + r % 16 * b.row_stride;
      for_each_16(b.columns, [&](std::size_t i, std::size_t n) {
        const std::size_t at = i / 16 * b.panel_stride + r * 16;
        v16 g = load_some(b.gate + at, n);
        if (b.gate_bias != nullptr)
          g = add(g, load_some(b.gate_bias + i, n));
        v16 h = activated<Kind>(g, b.limit);
        if (b.up != nullptr) {
          v16 u = load_some(b.up + at, n);
          if (b.up_bias != nullptr)
            u = add(u, load_some(b.up_bias + i, n));
          h = mul(h, gated_up<Kind>(u, b.limit));
        }
        if (b.layout == row_layout::f32)
          store_some(reinterpret_cast<float*>(out) + b.column + i, n, h);
        else
          store_product_columns(h, n, b.column + i, out, b.layout);
      });
      if (b.layout != row_layout::f32)
        for (std::size_t i = (b.column + b.columns + 15) / 16 * 16; i < b.end; i += 16)
          store_product_columns(splat(0.0F), 0, i, out, b.layout);
    }
  });
}

static void activate_row(activation kind, float limit, const std::byte* gate, dtype gate_type,
                         const std::byte* up, dtype up_type, std::size_t count, std::byte* out,
                         dtype out_type) {
  with_activation(kind, [&]<activation Kind>() {
    with_type(gate, gate_type, [&](const auto* g) {
      with_type(up, up_type, [&](const auto* u) {
        with_type(out, out_type, [&](auto* to) {
          for_each_16(count, [&](std::size_t i, std::size_t n) {
            v16 h = activated<Kind>(load_some(g + i, n), limit);
            if (u != nullptr)
              h = mul(h, gated_up<Kind>(load_some(u + i, n), limit));
            store_some(to + i, n, h);
          });
        });
      });
    });
  });
}

TROUPE_FLAT void rms_norm_row(const std::byte* in, dtype in_type, const float* weight, float offset,
                              float epsilon, std::size_t count, std::byte* out, dtype out_type) {
  with_type(in, in_type, [&](const auto* x) {
    v16 squares = splat(0.0F);
    for_each_16(count, [&](std::size_t i, std::size_t n) {
      const v16 v = load_some(x + i, n);
      squares = fma(v, v, squares);
    });
    const float mean = sum_of(squares) / static_cast<float>(count);
    const v16 r = splat(1.0F / std::sqrt(mean + epsilon));
    const v16 shift = splat(offset);
    with_type(out, out_type, [&](auto* y) {
      for_each_16(count, [&](std::size_t i, std::size_t n) {
        v16 normal = mul(load_some(x + i, n), r);
        if (weight != nullptr)
          normal = mul(normal, add(load_some(weight + i, n), shift));
        store_some(y + i, n, normal);
      });
    });
  });
}

static void layer_norm_row(const std::byte* in, dtype in_type, const float* weight, const float* bias,
                           float epsilon, std::size_t count, std::byte* out, dtype out_type) {
  with_type(in, in_type, [&](const auto* x) {
    v16 sum = splat(0.0F);
    for_each_16(count, [&](std::size_t i, std::size_t n) { sum = add(sum, load_some(x + i, n)); });
    const float mean = sum_of(sum) / static_cast<float>(count);
    const v16 m = splat(mean);
    float means[16]; // a BF16 row cannot be padded with its mean, which may be no BF16 number
    store16(means, m);
    v16 squares = splat(0.0F);
    for_each_16(count, [&](std::size_t i, std::size_t n) {
      const v16 d = sub(load_some(x + i, n), load_some(means, n)); // lanes past the end: 0 − 0
      squares = fma(d, d, squares);
    });
    const v16 r = splat(1.0F / std::sqrt(sum_of(squares) / static_cast<float>(count) + epsilon));
    with_type(out, out_type, [&](auto* y) {
      for_each_16(count, [&](std::size_t i, std::size_t n) {
        const v16 normal = mul(sub(load_some(x + i, n), m), r);
        const v16 w = load_some(weight + i, n);
        const v16 b = bias != nullptr ? load_some(bias + i, n) : splat(0.0F);
        store_some(y + i, n, fma(normal, w, b));
      });
    });
  });
}

TROUPE_FLAT void scale_row(const std::byte* in, dtype in_type, float scale, std::size_t count, std::byte* out,
                           dtype out_type) {
  const v16 s = splat(scale);
  with_type(in, in_type, [&](const auto* x) {
    with_type(out, out_type, [&](auto* y) {
      for_each_16(count,
                  [&](std::size_t i, std::size_t n) { store_some(y + i, n, mul(load_some(x + i, n), s)); });
    });
  });
}

TROUPE_FLAT void add_scaled_row(const std::byte* in, dtype in_type, float factor, std::size_t count,
                                float* out) {
  const v16 f = splat(factor);
  with_type(in, in_type, [&](const auto* x) {
    for_each_16(count, [&](std::size_t i, std::size_t n) {
      store_some(out + i, n, fma(f, load_some(x + i, n), load_some(out + i, n)));
    });
  });
}

/// Rotates the pairs (low[i], high[i]).
TROUPE_INLINE void rotate_pairs(float* low, float* high, const float* cos, const float* sin,
                                std::size_t pairs) {
  for_each_16(pairs, [&](std::size_t i, std::size_t n) {
    const v16 a = load_some(low + i, n);
    const v16 b = load_some(high + i, n);
    const v16 c = load_some(cos + i, n);
    const v16 s = load_some(sin + i, n);
    store_some(low + i, n, fma(a, c, sub(splat(0.0F), mul(b, s))));
    store_some(high + i, n, fma(b, c, mul(a, s)));
  });
}

static void rope_half(float* head, const float* cos, const float* sin, std::size_t pairs) {
  rotate_pairs(head, head + pairs, cos, sin, pairs);
}

static void rope_interleaved(float* head, const float* cos, const float* sin, std::size_t pairs) {
  for_each_16(pairs, [&](std::size_t i, std::size_t n) {
    float low[16] = {};
    float high[16] = {};
    for (std::size_t j = 0; j < n; ++j) {
      low[j] = head[2 * (i + j)];
      high[j] = head[2 * (i + j) + 1];
    }
    rotate_pairs(low, high, cos + i, sin + i, n);
    for (std::size_t j = 0; j < n; ++j) {
      head[2 * (i + j)] = low[j];
      head[2 * (i + j) + 1] = high[j];
    }
  });
}

static float max_row(const float* in, std::size_t count) {
  const float lowest = -std::numeric_limits<float>::infinity();
  v16 best = splat(lowest);
  for_each_16(count, [&](std::size_t i, std::size_t n) { best = max(best, load_some(in + i, n, lowest)); });
  return max_of(best);
}

static float softmax_row(const float* in, std::size_t count, float* out) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const v16 top = splat(max_row(in, count));
  v16 sum = splat(0.0F);
  for_each_16(count, [&](std::size_t i, std::size_t n) {
    const v16 p = exp(sub(load_some(in + i, n, lowest), top));
    store_some(out + i, n, p);
    sum = add(sum, p);
  });
  return sum_of(sum);
}

static void sigmoid_row(const float* in, std::size_t count, float* out) {
  for_each_16(count,
              [&](std::size_t i, std::size_t n) { store_some(out + i, n, sigmoid(load_some(in + i, n))); });
}

static double exp_sum(const float* in, float max_value, float factor, std::size_t count, float* out) {
  const float lowest = -std::numeric_limits<float>::infinity();
  const v16 top = splat(max_value);
  const v16 f = splat(factor);
  double total = 0.0;
  for (std::size_t begin = 0; begin < count; begin += 256) {
    const std::size_t length = count - begin < 256 ? count - begin : 256;
    v16 sum = splat(0.0F);
    for_each_16(length, [&](std::size_t i, std::size_t n) {
      const v16 p = exp(mul(sub(load_some(in + begin + i, n, lowest), top), f));
      if (out != nullptr)
        store_some(out + begin + i, n, p);
      sum = add(sum, p);
    });
    total += static_cast<double>(sum_of(sum));
  }
  return total;
}

TROUPE_FLAT void combine_row(const std::byte* const* rows, const float* weights, std::size_t slots,
                             dtype type, std::size_t count, float* residual) {
  for_each_16(count, [&](std::size_t i, std::size_t n) {
    v16 sum = splat(0.0F);
    bool first = true;
    for (std::size_t s = 0; s < slots; ++s) {
      if (rows[s] == nullptr)
        continue;
      const v16 w = splat(weights[s]);
      with_type(rows[s], type, [&](const auto* x) {
        const v16 v = load_some(x + i, n);
        sum = first ? mul(w, v) : fma(w, v, sum);
      });
      first = false;
    }
    if (!first)
      store_some(residual + i, n, add(load_some(residual + i, n), sum));
  });
}

static float dot(const std::byte* a, dtype a_type, const float* b, std::size_t count) {
  return with_type(a, a_type, [&](const auto* x) {
    v16 sum = splat(0.0F);
    for_each_16(count, [&](std::size_t i, std::size_t n) {
      sum = fma(load_some(x + i, n), load_some(b + i, n), sum);
    });
    return sum_of(sum);
  });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
