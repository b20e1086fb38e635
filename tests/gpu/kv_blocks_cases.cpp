#include "kernels/cuda/kv_blocks.hpp"

#include <algorithm>
#include <cstring>

#include "tests/gpu/cases.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

std::vector<std::byte> random_bytes(session& s, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes)
    b = static_cast<std::byte>(s.random()() & 0xffU);
  return bytes;
}

// The first half of each layer's blocks to the second; and memory to the host and back, which a swapped block
// takes.
void time_copies(session& s) {
  const std::size_t num_layers = s.options().small ? 2 : 16;
  const std::uint32_t num_copies = s.options().small ? 2 : 64;
  cuda::kv_layer layer{.blocks = 2 * num_copies,
                       .block_tokens = 16,
                       .kv_heads = 8,
                       .head_dim = s.options().small ? std::size_t{8} : std::size_t{128},
                       .type = dtype::bf16};
  const std::size_t layer_bytes = layer.block_bytes() * layer.blocks;
  const device_array<std::byte> memory(s.on(), num_layers * layer_bytes);
  std::vector<cuda::kv_layer> all(num_layers, layer);
  for (std::size_t i = 0; i < num_layers; ++i)
    all[i].data = memory.data() + i * layer_bytes;
  std::vector<block_copy> pairs;
  for (std::uint32_t i = 0; i < num_copies; ++i)
    pairs.push_back({i, num_copies + i});
  const device_array<cuda::kv_layer> layers(s.on(), all);
  const device_array<block_copy> copies(s.on(), pairs);
  s.time("kv_blocks " + std::to_string(num_copies) + " blocks of " + std::to_string(num_layers) + " layers",
         {.bytes = static_cast<double>(num_layers * layer_bytes), .flops = 0.0}, 1, [&](std::size_t) {
           cuda::copy_blocks(s.on(), {.layers = layers.data(),
                                      .num_layers = num_layers,
                                      .copies = copies.data(),
                                      .num_copies = num_copies});
         });
  const std::size_t swapped = std::min<std::size_t>(memory.size(), std::size_t{16} << 20);
  const cuda::pinned_memory outside(swapped);
  const std::string text = std::to_string(swapped >> 10) + " KiB";
  s.time("copy " + text + " to pinned memory, no floor", {}, 1,
         [&](std::size_t) { s.on().copy_to_host(outside.data(), memory.data(), swapped); });
  s.time("copy " + text + " from pinned memory, no floor", {}, 1,
         [&](std::size_t) { s.on().copy_to_device(memory.data(), outside.data(), swapped); });
}

} // namespace

void check_kv_blocks(session& s) {
  if (!s.begin("kv_blocks"))
    return;
  // Two layers of different shapes; copies in both, then one block out to pinned memory and back elsewhere.
  cuda::kv_layer first{.blocks = 5, .block_tokens = 16, .kv_heads = 3, .head_dim = 40, .type = dtype::bf16};
  cuda::kv_layer second{.blocks = 5, .block_tokens = 32, .kv_heads = 1, .head_dim = 8, .type = dtype::int8};
  const auto first_bytes = random_bytes(s, first.block_bytes() * first.blocks);
  const auto second_bytes = random_bytes(s, second.block_bytes() * second.blocks);
  const device_array<std::byte> first_memory(s.on(), first_bytes);
  const device_array<std::byte> second_memory(s.on(), second_bytes);
  first.data = first_memory.data();
  second.data = second_memory.data();
  const device_array<cuda::kv_layer> layers(s.on(), std::vector{first, second});
  const device_array<block_copy> copies(s.on(), std::vector<block_copy>{{0, 3}, {4, 1}});
  cuda::copy_blocks(s.on(),
                    {.layers = layers.data(), .num_layers = 2, .copies = copies.data(), .num_copies = 2});
  const std::size_t block = first.block_bytes();
  const cuda::pinned_memory outside(block);
  s.on().copy_to_host(outside.data(), first.data + 3 * block, block);
  s.on().copy_to_device(first.data + 2 * block, outside.data(), block);
  s.on().synchronize();

  const auto copied = [](std::vector<std::byte> bytes, std::size_t block_bytes, std::size_t from,
                         std::size_t to) {
    std::memcpy(bytes.data() + to * block_bytes, bytes.data() + from * block_bytes, block_bytes);
    return bytes;
  };
  auto want = copied(copied(first_bytes, block, 0, 3), block, 4, 1);
  want = copied(want, block, 3, 2);
  s.compare_exact("bf16, with a swap to pinned memory", first_memory.download(s.on()), want);
  s.compare_exact("int8", second_memory.download(s.on()),
                  copied(copied(second_bytes, second.block_bytes(), 0, 3), second.block_bytes(), 4, 1));
  if (s.options().times)
    time_copies(s);
}

} // namespace troupe::gpu_check
