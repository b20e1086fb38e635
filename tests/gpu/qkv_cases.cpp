#include "kernels/cuda/qkv.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/norm.hpp"
#include "kernels/query_factors.hpp"
#include "kernels/rope.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/device_cache.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

enum class norms : std::uint8_t { none, per_head, whole, weightless };

struct qkv_variant {
  std::size_t rows;
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t head_dim;
  std::size_t rotary_dim;
  rope_style style;
  norms norm;
  bool biased;
  dtype cache_type;
  bool norms_last = false;
  std::size_t rotary_first = 0;
  bool has_query_factors = false;
};

void check(session& s, const qkv_variant& v) {
  const std::size_t q_width = v.heads * v.head_dim;
  const std::size_t kv_width = v.kv_heads * v.head_dim;
  const std::size_t width = q_width + 2 * kv_width;
  const std::size_t positions = 300;
  auto rows = s.normal(v.rows * width);
  const auto bias = s.normal(width);
  const std::size_t norm_width = v.norm == norms::whole ? q_width : v.head_dim;
  const std::size_t key_norm_width = v.norm == norms::whole ? kv_width : v.head_dim;
  const auto q_norm = s.normal(norm_width);
  const auto k_norm = s.normal(key_norm_width);
  std::vector<std::uint32_t> row_positions(v.rows);
  std::generate(row_positions.begin(), row_positions.end(), [&] { return s.below(positions); });
  device_cache cache(s, 6, 16, v.kv_heads, v.head_dim, v.cache_type);
  std::vector<std::uint32_t> slots(6 * 16);
  std::iota(slots.begin(), slots.end(), 0U);
  std::shuffle(slots.begin(), slots.end(), s.random());
  slots.resize(v.rows);
  const bool rotates = v.rotary_dim != 0;
  const rope_table table = rotates ? rope_table({.rotary_dim = v.rotary_dim}, positions) : rope_table();
  const auto factors = query_factors(0.1, 8.0, positions);

  const device_array<float> device_rows(s.on(), rows);
  const device_array<float> device_bias(s.on(), bias);
  const device_array<float> device_q_norm(s.on(), q_norm);
  const device_array<float> device_k_norm(s.on(), k_norm);
  const std::size_t pairs = positions * v.rotary_dim / 2;
  const device_array<float> cosines(s.on(), std::span(table.cos_at(0), pairs));
  const device_array<float> sines(s.on(), std::span(table.sin_at(0), pairs));
  const device_array<float> device_factors(s.on(), factors);
  const device_array<std::uint32_t> device_positions(s.on(), row_positions);
  const device_array<std::uint32_t> device_slots(s.on(), slots);
  const device_array<bfloat16> query(s.on(), v.rows * q_width);
  const auto norm_of = [&](const device_array<float>& weight) {
    return cuda::head_norm{.weight =
                               v.norm == norms::per_head || v.norm == norms::whole ? weight.data() : nullptr,
                           .per_head = v.norm != norms::whole,
                           .weightless = v.norm == norms::weightless};
  };
  cuda::finish_qkv(s.on(), {.qkv = device_rows.data(),
                            .stride = width,
                            .rows = v.rows,
                            .heads = v.heads,
                            .bias = v.biased ? device_bias.data() : nullptr,
                            .query_norm = norm_of(device_q_norm),
                            .key_norm = norm_of(device_k_norm),
                            .norms_last = v.norms_last,
                            .cosines = rotates ? cosines.data() : nullptr,
                            .sines = sines.data(),
                            .num_positions = positions,
                            .rotary_dim = v.rotary_dim,
                            .style = v.style,
                            .rotary_first = v.rotary_first,
                            .query_factors = v.has_query_factors ? device_factors.data() : nullptr,
                            .positions = device_positions.data(),
                            .slots = device_slots.data(),
                            .cache = cache.layer,
                            .query = query.data()});

  if (v.biased)
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] += bias[i % width];
  const auto all = view_of(rows.data(), v.rows, width);
  const auto q = all.columns(0, q_width);
  const auto k = all.columns(q_width, kv_width);
  const auto normalize = [&] {
    if (v.norm == norms::none)
      return;
    const std::size_t group = v.norm == norms::whole ? 0 : v.head_dim;
    const auto* q_weight = v.norm == norms::weightless ? nullptr : q_norm.data();
    const auto* k_weight = v.norm == norms::weightless ? nullptr : k_norm.data();
    rms_norm(s.cpu(), {.input = q, .weight = q_weight, .output = q, .group = group});
    rms_norm(s.cpu(), {.input = k, .weight = k_weight, .output = k, .group = group});
  };
  if (!v.norms_last)
    normalize();
  if (rotates)
    rope(s.cpu(), {.rows = all.columns(0, q_width + kv_width),
                   .heads = v.heads + v.kv_heads,
                   .head_dim = v.head_dim,
                   .positions = row_positions,
                   .table = &table,
                   .style = v.style,
                   .first = v.rotary_first});
  if (v.norms_last)
    normalize();
  if (v.has_query_factors)
    scale_queries(s.cpu(), q, row_positions, factors);
  kv_write(s.cpu(), {.cache = &cache.cpu,
                     .layer = 0,
                     .keys = all.columns(q_width, kv_width),
                     .values = all.columns(q_width + kv_width, kv_width),
                     .slots = slots});

  std::vector<bfloat16> want;
  for (std::size_t r = 0; r < v.rows; ++r)
    for (std::size_t i = 0; i < q_width; ++i)
      want.push_back(to_bfloat16(rows[r * width + i]));
  const std::string what = std::to_string(v.rows) + " rows, " + std::to_string(v.heads) + "/"
                           + std::to_string(v.kv_heads) + " heads of " + std::to_string(v.head_dim) + ", "
                           + name_of(v.cache_type);
  s.compare(what + ", queries", query.download(s.on()), want, tolerance_bf16(v.head_dim));
  std::vector<float> cached;
  std::vector<float> want_cached;
  const auto image = cache.image(s);
  std::vector<float> key(kv_width);
  std::vector<float> value(kv_width);
  for (const std::uint32_t slot : slots) {
    const auto numbers = cache.read(image, slot);
    cached.insert(cached.end(), numbers.begin(), numbers.end());
    kv_read(cache.cpu, 0, slot, key, value);
    want_cached.insert(want_cached.end(), key.begin(), key.end());
    want_cached.insert(want_cached.end(), value.begin(), value.end());
  }
  // An int8 that is rounded differently is one scale apart: 1/127 of the head's largest number.
  s.compare(what + ", keys and values", cached, want_cached,
            v.cache_type == dtype::int8 ? tolerance{.relative = 4e-3, .element = 3e-2}
                                        : tolerance_bf16(v.head_dim));
}

// Rotated queries and keys with a norm on each head: 32 heads, 8 of keys and values, of 128.
void time_qkv(session& s, std::size_t rows, dtype cache_type) {
  const std::size_t heads = s.options().small ? 4 : 32;
  const std::size_t kv_heads = heads / 4;
  const std::size_t head_dim = s.options().small ? 16 : 128;
  const std::size_t width = (heads + 2 * kv_heads) * head_dim;
  const std::size_t positions = 64;
  cuda::kv_layer cache{.blocks = (rows + 15) / 16,
                       .block_tokens = 16,
                       .kv_heads = kv_heads,
                       .head_dim = head_dim,
                       .type = cache_type};
  const device_array<std::byte> memory(s.on(), cache.block_bytes() * cache.blocks);
  cache.data = memory.data();
  const rope_table table({.rotary_dim = head_dim}, positions);
  const std::size_t pairs = positions * head_dim / 2;
  const device_array<float> cosines(s.on(), std::span(table.cos_at(0), pairs));
  const device_array<float> sines(s.on(), std::span(table.sin_at(0), pairs));
  std::vector<std::uint32_t> places(rows);
  std::iota(places.begin(), places.end(), 0U);
  const device_array<std::uint32_t> slots(s.on(), places);
  for (std::uint32_t& place : places)
    place %= positions;
  const device_array<std::uint32_t> row_positions(s.on(), places);
  const device_array<float> x(s.on(), s.normal(rows * width));
  const device_array<float> weight(s.on(), s.normal(head_dim));
  const device_array<bfloat16> query(s.on(), rows * heads * head_dim);
  s.time("finish_qkv " + std::to_string(rows) + " rows, " + name_of(cache_type),
         {.bytes = static_cast<double>(rows * (4 * width + 2 * heads * head_dim)
                                       + cache.block_bytes() / cache.block_tokens * rows),
          .flops = 0.0},
         1, [&](std::size_t) {
           cuda::finish_qkv(s.on(), {.qkv = x.data(),
                                     .stride = width,
                                     .rows = rows,
                                     .heads = heads,
                                     .query_norm = {weight.data(), true},
                                     .key_norm = {weight.data(), true},
                                     .cosines = cosines.data(),
                                     .sines = sines.data(),
                                     .num_positions = positions,
                                     .rotary_dim = head_dim,
                                     .positions = row_positions.data(),
                                     .slots = slots.data(),
                                     .cache = cache,
                                     .query = query.data()});
         });
}

} // namespace

void check_qkv(session& s) {
  if (!s.begin("qkv"))
    return;
  std::vector<qkv_variant> variants = {
      {3, 4, 2, 16, 16, rope_style::rotate_half, norms::none, false, dtype::bf16},
      {5, 6, 2, 40, 24, rope_style::interleaved, norms::per_head, true, dtype::bf16},
      {2, 8, 8, 8, 8, rope_style::rotate_half, norms::whole, false, dtype::int8},
      {1, 9, 3, 256, 256, rope_style::rotate_half, norms::per_head, false, dtype::int8},
      {3, 4, 2, 32, 32, rope_style::rotate_half, norms::per_head, false, dtype::bf16, true},
      {3, 4, 2, 32, 32, rope_style::interleaved, norms::weightless, false, dtype::bf16, true},
      {4, 4, 2, 40, 0, rope_style::interleaved, norms::none, false, dtype::bf16, false, 0, true},
      {2, 4, 4, 48, 16, rope_style::interleaved, norms::none, false, dtype::bf16, false, 32},
      {2, 4, 1, 40, 8, rope_style::rotate_half, norms::weightless, true, dtype::int8, false, 4, true},
  };
  if (!s.options().small)
    variants.insert(variants.end(),
                    {{90, 32, 8, 128, 128, rope_style::rotate_half, norms::none, true, dtype::bf16},
                     {64, 16, 16, 128, 128, rope_style::rotate_half, norms::whole, false, dtype::bf16},
                     {33, 28, 4, 128, 64, rope_style::rotate_half, norms::per_head, true, dtype::int8}});
  for (const qkv_variant& v : variants)
    check(s, v);
  if (!s.options().times)
    return;
  for (const dtype type : {dtype::bf16, dtype::int8})
    for (const std::size_t rows : {64U, 4096U})
      time_qkv(s, s.options().small ? 3 : rows, type);
}

} // namespace troupe::gpu_check
