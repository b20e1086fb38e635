// A layer of the KV cache on both sides, with the same tokens.
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/kv_layout.hpp"
#include "kernels/kv_cache.hpp"
#include "tests/gpu/check.hpp"

namespace troupe::gpu_check {

/// One layer; the host's image equals the device's content after `upload`.
class device_cache {
 public:
  device_cache(session& s, std::size_t blocks, std::size_t block_tokens, std::size_t kv_heads,
               std::size_t head_dim, kernels::dtype type, std::size_t value_dim = 0)
      : cpu({.groups = {{.layers = 1,
                         .kv_heads = kv_heads,
                         .head_dim = head_dim,
                         .type = type,
                         .value_dim = value_dim}},
             .block_tokens = block_tokens},
            blocks),
        layer{.blocks = blocks,
              .block_tokens = block_tokens,
              .kv_heads = kv_heads,
              .head_dim = head_dim,
              .type = type,
              .value_dim = value_dim},
        memory_(s.on(), layer.block_bytes() * blocks) {
    layer.data = memory_.data();
  }

  /// Copies the CPU's cache in `slots` to the device: in bf16 the same bits, in int8 the same integers.
  void upload(session& s, const std::vector<std::uint32_t>& slots) {
    std::vector<std::byte> image = memory_.download(s.on());
    std::vector<float> key(layer.kv_heads * layer.head_dim);
    std::vector<float> value(key.size());
    for (const std::uint32_t slot : slots) {
      kv_read(cpu, 0, slot, key, value);
      for (std::size_t h = 0; h < layer.kv_heads; ++h) {
        write(image, layer.key_offset(slot, h), layer.key_scale_offset(slot, h),
              key.data() + h * layer.head_dim);
        if (layer.is_latent())
          continue;
        write(image, layer.value_offset(slot, h), layer.value_scale_offset(slot, h),
              value.data() + h * layer.head_dim);
      }
    }
    s.on().copy_to_device(memory_.data(), image.data(), image.size());
    s.on().synchronize();
  }

  /// Keys, then values of one slot in the device's image.
  std::vector<float> read(const std::vector<std::byte>& image, std::uint32_t slot) const {
    std::vector<float> numbers;
    for (const bool values : {false, true})
      for (std::size_t h = 0; h < layer.kv_heads; ++h) {
        const std::size_t at = values ? layer.value_offset(slot, h) : layer.key_offset(slot, h);
        float scale = 1.0F;
        if (layer.type == kernels::dtype::int8)
          std::memcpy(&scale,
                      image.data()
                          + (values ? layer.value_scale_offset(slot, h) : layer.key_scale_offset(slot, h)),
                      sizeof scale);
        for (std::size_t d = 0; d < layer.head_dim; ++d)
          numbers.push_back(
              layer.type == kernels::dtype::int8
                  ? static_cast<float>(reinterpret_cast<const std::int8_t*>(image.data() + at)[d]) * scale
                  : to_float(reinterpret_cast<const kernels::bfloat16*>(image.data() + at)[d]));
      }
    return numbers;
  }

  std::vector<std::byte> image(session& s) const { return memory_.download(s.on()); }

  kernels::kv_cache cpu;
  kernels::cuda::kv_layer layer;

 private:
  void write(std::vector<std::byte>& image, std::size_t at, std::size_t scale_at, const float* head) const {
    if (layer.type == kernels::dtype::bf16) {
      for (std::size_t d = 0; d < layer.head_dim; ++d)
        reinterpret_cast<kernels::bfloat16*>(image.data() + at)[d] = kernels::to_bfloat16(head[d]);
      return;
    }
    float most = 0.0F; // of the integers times the scale: 127 times the scale
    for (std::size_t d = 0; d < layer.head_dim; ++d)
      most = std::max(most, std::abs(head[d]));
    const float scale = most / 127.0F;
    for (std::size_t d = 0; d < layer.head_dim; ++d)
      reinterpret_cast<std::int8_t*>(image.data() + at)[d] =
          static_cast<std::int8_t>(scale > 0.0F ? std::lround(head[d] / scale) : 0);
    std::memcpy(image.data() + scale_at, &scale, sizeof scale);
  }

  device_array<std::byte> memory_;
};

} // namespace troupe::gpu_check
