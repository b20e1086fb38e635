#include "kernels/kv_cache.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"
#include "kernels/kv_limits.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t tile_tokens = 16;

std::size_t padded_key_dim(const kv_layer_group& group) {
  return (group.head_dim + 31) / 32 * 32;
}

// Of the values that are stored.
std::size_t padded_value_dim(const kv_layer_group& group) {
  return group.is_latent() ? 0 : (group.head_dim + 15) / 16 * 16;
}

std::size_t scale_bytes(const kv_layer_group& group) {
  return group.type == dtype::int8 ? sizeof(float) : 0; // of a token
}

std::size_t key_tile_bytes(const kv_layer_group& group) {
  return (bytes_of(group.type, padded_key_dim(group)) + scale_bytes(group)) * tile_tokens;
}

std::size_t value_tile_bytes(const kv_layer_group& group) {
  return (bytes_of(group.type, padded_value_dim(group)) + scale_bytes(group)) * tile_tokens;
}

// Place of dimension `d` of token `t` in a key tile; in a value tile, token and dimension swap roles.
std::size_t key_index(dtype type, std::size_t t, std::size_t d) {
  return type == dtype::bf16 ? (d / 2 * tile_tokens + t) * 2 + d % 2 : d * tile_tokens + t;
}

std::size_t value_index(dtype type, std::size_t t, std::size_t d, std::size_t dims) {
  return type == dtype::bf16 ? (t / 2 * dims + d) * 2 + t % 2 : t * dims + d;
}

// Place of the scale of token `t` in a tile.
std::size_t scale_offset(std::size_t dims, std::size_t t) {
  return dims * tile_tokens + t * sizeof(float);
}

// The tiles with one head of a token, and the token's index in them.
struct head_slot {
  std::byte* keys;
  std::byte* values;
  std::size_t token;
};

// Copies contiguous elements to every `Stride`-th place of a tile.
template <std::size_t ElementBytes, std::size_t Stride>
void scatter(std::byte* to, const std::byte* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * Stride * ElementBytes, from + i * ElementBytes, ElementBytes);
}

void write_head(const kv_layer_group& group, const head_slot& slot, const std::byte* key,
                const std::byte* value) {
  const std::size_t dims = group.head_dim;
  const std::size_t t = slot.token;
  std::byte* key_to = slot.keys + bytes_of(group.type, key_index(group.type, t, 0));
  if (group.type == dtype::bf16) { // two dimensions of a key are adjacent
    scatter<2 * sizeof(bfloat16), tile_tokens>(key_to, key, dims / 2);
  } else if (group.type == dtype::f32) {
    scatter<sizeof(float), tile_tokens>(key_to, key, dims);
  } else {
    scatter<1, tile_tokens>(key_to, key, dims);
    std::memcpy(slot.keys + scale_offset(padded_key_dim(group), t), key + int8_row_scale(dims),
                sizeof(float));
  }
  if (group.is_latent())
    return;
  const std::size_t width = padded_value_dim(group);
  std::byte* value_to = slot.values + bytes_of(group.type, value_index(group.type, t, 0, width));
  if (group.type == dtype::bf16) // two tokens' values are adjacent
    scatter<sizeof(bfloat16), 2>(value_to, value, dims);
  else
    std::memcpy(value_to, value, bytes_of(group.type, dims));
  if (group.type == dtype::int8)
    std::memcpy(slot.values + scale_offset(width, t), value + int8_row_scale(dims), sizeof(float));
}

float read_element(const std::byte* tile, dtype type, std::size_t index) {
  switch (type) {
  case dtype::bf16:
    return to_float(reinterpret_cast<const bfloat16*>(tile)[index]);
  case dtype::int8:
    return static_cast<float>(reinterpret_cast<const std::int8_t*>(tile)[index]);
  default:
    return reinterpret_cast<const float*>(tile)[index];
  }
}

float read_scale(const std::byte* tile, dtype type, std::size_t dims, std::size_t t) {
  float scale = 1.0F;
  if (type == dtype::int8)
    std::memcpy(&scale, tile + scale_offset(dims, t), sizeof scale);
  return scale;
}

// Why a cache cannot have such layers, as the end of a sentence; empty if it can.
std::string problem_of(const kv_layer_group& group) {
  const std::size_t most = group.is_latent() ? most_latent_dims : most_head_dim;
  if (group.head_dim < 8 || group.head_dim > most || group.head_dim % 8 != 0)
    return "head_dim " + std::to_string(group.head_dim) + " is not a multiple of 8 from 8 to "
           + std::to_string(most);
  if (group.kv_heads == 0)
    return "no KV heads";
  if (group.type != dtype::f32 && group.type != dtype::bf16 && group.type != dtype::int8)
    return std::string("type ") + name_of(group.type) + " is not f32, bf16 or int8";
  if (!group.is_latent())
    return {};
  if (group.value_dim > group.head_dim || group.value_dim > most_latent_values || group.value_dim % 8 != 0)
    return "value_dim " + std::to_string(group.value_dim) + " is not a multiple of 8 up to head_dim and "
           + std::to_string(most_latent_values);
  if (group.kv_heads != 1)
    return "latent layers with " + std::to_string(group.kv_heads) + " KV heads; one is possible";
  if (group.type == dtype::int8)
    return "latent layers in int8";
  return {};
}

} // namespace

std::size_t kv_layer_group::bytes_per_token() const {
  return kv_heads
         * (bytes_of(type, padded_key_dim(*this) + padded_value_dim(*this)) + 2 * scale_bytes(*this));
}

std::size_t kv_cache_config::layers() const {
  std::size_t count = 0;
  for (const auto& group : groups)
    count += group.layers;
  return count;
}

std::size_t kv_cache_config::bytes_per_token() const {
  std::size_t sum = 0;
  std::size_t layer = 0;
  std::vector<bool> is_counted;
  for (const auto& group : groups)
    for (std::size_t i = 0; i < group.layers; ++i, ++layer) {
      const std::size_t place = places.empty() ? layer : places[layer];
      is_counted.resize(std::max(is_counted.size(), place + 1));
      sum += is_counted[place] ? 0 : group.bytes_per_token();
      is_counted[place] = true;
    }
  return sum;
}

kv_cache::kv_cache(const kv_cache_config& config, std::size_t blocks) : config_(config), blocks_(blocks) {
  if (config.block_tokens != 16 && config.block_tokens != 32)
    throw kernel_error("kv_cache: blocks of " + std::to_string(config.block_tokens)
                       + " tokens; 16 or 32 are possible");
  if (!config.places.empty() && config.places.size() != config.layers())
    throw kernel_error("kv_cache: " + std::to_string(config.places.size()) + " places of "
                       + std::to_string(config.layers()) + " layers");
  std::size_t offset = 0;
  std::vector<std::size_t> first_layers; // of each place
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const kv_layer_group& group = config.groups[g];
    if (const std::string problem = problem_of(group); !problem.empty())
      throw kernel_error("kv_cache: " + problem);
    for (std::size_t i = 0; i < group.layers; ++i) {
      const std::size_t layer = layer_group_.size();
      const std::size_t place = config.places.empty() ? layer : config.places[layer];
      layer_group_.push_back(g);
      if (place < first_layers.size()) {
        if (layer_group_[first_layers[place]] != g)
          throw kernel_error("kv_cache: layers of different shapes have one place");
        layer_offset_.push_back(layer_offset_[first_layers[place]]);
        continue;
      }
      if (place != first_layers.size())
        throw kernel_error("kv_cache: places are not numbered in order");
      first_layers.push_back(layer);
      layer_offset_.push_back(offset);
      offset += group.bytes_per_token() * config.block_tokens * blocks;
    }
  }
  storage_ = buffer(offset);
}

std::size_t kv_cache::head_key_bytes(std::size_t layer) const {
  return key_tile_bytes(group_of(layer)) * (config_.block_tokens / tile_tokens);
}

std::size_t kv_cache::head_block_bytes(std::size_t layer) const {
  return head_key_bytes(layer) + value_tile_bytes(group_of(layer)) * (config_.block_tokens / tile_tokens);
}

const std::byte* kv_cache::head_block(std::size_t layer, std::uint32_t block, std::size_t kv_head) const {
  return storage_.data() + layer_offset_[layer]
         + (block * group_of(layer).kv_heads + kv_head) * head_block_bytes(layer);
}

std::byte* kv_cache::head_block(std::size_t layer, std::uint32_t block, std::size_t kv_head) {
  return storage_.data() + layer_offset_[layer]
         + (block * group_of(layer).kv_heads + kv_head) * head_block_bytes(layer);
}

void kv_cache::copy_block(std::uint32_t from, std::uint32_t to) {
  expect(from < blocks_ && to < blocks_, "kv_cache: a block is out of range");
  for (std::size_t layer = 0; layer < layer_group_.size(); ++layer)
    std::memcpy(head_block(layer, to, 0), head_block(layer, from, 0),
                head_block_bytes(layer) * group_of(layer).kv_heads);
}

void kv_write(context& ctx, const kv_write_args& args) {
  expect(args.cache != nullptr && args.layer < args.cache->config().layers(), "kv_write: no such layer");
  kv_cache& cache = *args.cache;
  const kv_layer_group& group = cache.group_of(args.layer);
  const std::size_t rows = args.slots.size();
  const std::size_t columns = group.kv_heads * group.head_dim;
  expect(args.keys.rows == rows && args.keys.cols == columns,
         "kv_write: keys are not [slots, kv_heads · head_dim]");
  if (group.is_latent()) {
    expect(args.values.data == nullptr, "kv_write: a latent layer takes no values");
  } else {
    expect(args.values.rows == rows && args.values.cols == columns,
           "kv_write: values are not [slots, kv_heads · head_dim]");
    expect(args.keys.type == args.values.type, "kv_write: keys and values differ in type");
  }
  const std::size_t block_tokens = cache.config().block_tokens;
  for (const std::uint32_t slot : args.slots)
    expect(slot / block_tokens < cache.blocks(), "kv_write: a slot is outside the cache");
  const std::size_t key_bytes = cache.head_key_bytes(args.layer);
  cpu::over_row_ranges(ctx, rows, 2 * columns, [&](std::size_t r) {
    const std::size_t offset = args.slots[r] % block_tokens;
    const std::size_t tile = offset / tile_tokens;
    alignas(64) std::byte converted[2][int8_row_stride(most_latent_dims)];
    static_assert(sizeof converted[0] >= most_latent_dims * sizeof(float));
    // Converts head h of a row to the cache's type.
    const auto head = [&](const const_tensor_view& of, std::size_t h, std::byte* memory) -> const std::byte* {
      const std::byte* from = of.row(r) + bytes_of(of.type, h * group.head_dim);
      if (of.type == group.type)
        return from;
      if (group.type == dtype::int8)
        ctx.table().quant.quantize_row(from, of.type, group.head_dim, memory);
      else
        ctx.table().scale_row(from, of.type, 1.0F, group.head_dim, memory, group.type);
      return memory;
    };
    for (std::size_t h = 0; h < group.kv_heads; ++h) {
      std::byte* block =
          cache.head_block(args.layer, static_cast<std::uint32_t>(args.slots[r] / block_tokens), h);
      write_head(group,
                 {block + tile * key_tile_bytes(group), block + key_bytes + tile * value_tile_bytes(group),
                  offset % tile_tokens},
                 head(args.keys, h, converted[0]),
                 group.is_latent() ? nullptr : head(args.values, h, converted[1]));
    }
  });
}

void kv_read(const kv_cache& cache, std::size_t layer, std::uint32_t slot, std::span<float> key,
             std::span<float> value) {
  const kv_layer_group& group = cache.group_of(layer);
  const auto block_tokens = static_cast<std::uint32_t>(cache.config().block_tokens);
  const std::size_t tile = slot % block_tokens / tile_tokens;
  const std::size_t t = slot % tile_tokens;
  for (std::size_t h = 0; h < group.kv_heads; ++h) {
    const std::byte* block = cache.head_block(layer, slot / block_tokens, h);
    const std::byte* keys = block + tile * key_tile_bytes(group);
    const std::byte* values = block + cache.head_key_bytes(layer) + tile * value_tile_bytes(group);
    const float key_scale = read_scale(keys, group.type, padded_key_dim(group), t);
    for (std::size_t d = 0; d < group.head_dim; ++d)
      key[h * group.head_dim + d] = read_element(keys, group.type, key_index(group.type, t, d)) * key_scale;
    if (group.is_latent())
      continue;
    const float value_scale = read_scale(values, group.type, padded_value_dim(group), t);
    for (std::size_t d = 0; d < group.head_dim; ++d)
      value[h * group.head_dim + d] =
          read_element(values, group.type, value_index(group.type, t, d, padded_value_dim(group)))
          * value_scale;
  }
}

} // namespace troupe::kernels
