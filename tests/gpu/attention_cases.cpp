#include "kernels/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/cuda/attention.hpp"
#include "tests/gpu/cases.hpp"
#include "tests/gpu/device_cache.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

struct attention_variant {
  std::vector<std::uint32_t> lengths; ///< of sequences, in tokens
  bool all_rows = false;              ///< every position a row (prefill), or the last of each (decode)
  std::size_t heads;
  std::size_t kv_heads;
  std::size_t head_dim;
  std::size_t window = 0;
  bool sinks = false;
  dtype cache_type;
  std::size_t value_dim = 0; ///< not 0: latent
  std::uint32_t chunk = 0;
};

attention_variant latent(std::vector<std::uint32_t> lengths, bool all_rows, std::size_t heads,
                         std::size_t head_dim, std::size_t value_dim, std::size_t window = 0) {
  return {std::move(lengths), all_rows, heads, 1, head_dim, window, window != 0, dtype::bf16, value_dim};
}

struct batch {
  std::vector<attention_row> rows;
  std::vector<std::vector<std::uint32_t>> blocks;
  std::vector<std::uint32_t> slots; // of all tokens
  std::size_t num_blocks = 0;
  std::size_t table_width = 0;
  std::uint32_t most_position = 0;
};

batch make_batch(session& s, const attention_variant& v, std::size_t block_tokens) {
  batch b;
  for (const std::uint32_t length : v.lengths) {
    b.blocks.emplace_back((length + block_tokens - 1) / block_tokens);
    b.num_blocks += b.blocks.back().size();
    b.table_width = std::max(b.table_width, b.blocks.back().size());
    b.most_position = std::max(b.most_position, length - 1);
  }
  b.num_blocks += 2; // unused ones, which hold NaN
  std::vector<std::uint32_t> ids(b.num_blocks);
  std::iota(ids.begin(), ids.end(), 0U);
  std::shuffle(ids.begin(), ids.end(), s.random());
  auto next = ids.begin();
  for (std::uint32_t q = 0; q < v.lengths.size(); ++q) {
    for (std::uint32_t& block : b.blocks[q])
      block = *next++;
    for (std::uint32_t p = 0; p < v.lengths[q]; ++p) {
      b.slots.push_back(
          static_cast<std::uint32_t>(b.blocks[q][p / block_tokens] * block_tokens + p % block_tokens));
      if (v.all_rows || p + 1 == v.lengths[q])
        b.rows.push_back({q, p});
    }
  }
  return b;
}

// The rows cut into runs of at most `most_rows`.
std::vector<bfloat16> attend(session& s, cuda::attention_args args,
                             const std::vector<std::uint32_t>& sequences,
                             const std::vector<std::uint32_t>& positions, std::size_t most_rows) {
  const auto runs = cuda::runs_of(sequences, positions, most_rows);
  const device_array<cuda::row_run> device_runs(s.on(), runs);
  const device_array<float> workspace(s.on(), cuda::attention_workspace_floats(args));
  const device_array<bfloat16> output(s.on(), args.rows * args.heads * args.cache.value_width());
  args.runs = device_runs.data();
  args.num_runs = runs.size();
  args.most_run_rows = std::min(most_rows, args.rows);
  args.workspace = workspace.data();
  args.output = output.data();
  cuda::attention(s.on(), args);
  return output.download(s.on());
}

void check(session& s, const attention_variant& v) {
  const std::size_t block_tokens = 16;
  const batch b = make_batch(s, v, block_tokens);
  device_cache cache(s, b.num_blocks, block_tokens, v.kv_heads, v.head_dim, v.cache_type, v.value_dim);
  const std::size_t kv_width = v.kv_heads * v.head_dim;
  const std::size_t width = v.heads * v.head_dim;
  const std::size_t out_width = v.heads * cache.layer.value_width();
  const auto keys = s.normal(b.slots.size() * kv_width);
  const auto values = s.normal(b.slots.size() * kv_width);
  kv_write(s.cpu(), {.cache = &cache.cpu,
                     .layer = 0,
                     .keys = view_of(keys.data(), b.slots.size(), kv_width),
                     .values = v.value_dim != 0 ? const_tensor_view{}
                                                : view_of(values.data(), b.slots.size(), kv_width),
                     .slots = b.slots});
  cache.upload(s, b.slots);
  const auto query = s.normal_bf16(b.rows.size() * width);
  const auto sinks = s.normal(v.heads);
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(v.head_dim)));

  std::vector<attention_sequence> sequences;
  std::vector<std::uint32_t> tables(v.lengths.size() * b.table_width, 0xffffffffU);
  for (std::size_t q = 0; q < v.lengths.size(); ++q) {
    sequences.push_back({b.blocks[q]});
    std::copy(b.blocks[q].begin(), b.blocks[q].end(),
              tables.begin() + static_cast<std::ptrdiff_t>(q * b.table_width));
  }
  std::vector<bfloat16> want(b.rows.size() * out_width);
  attention(s.cpu(), {.cache = &cache.cpu,
                      .layer = 0,
                      .query = view_of(query.data(), b.rows.size(), width),
                      .heads = v.heads,
                      .rows = b.rows,
                      .sequences = sequences,
                      .scale = scale,
                      .sliding_window = v.window,
                      .chunk = v.chunk,
                      .sinks = v.sinks ? sinks.data() : nullptr,
                      .output = view_of(want.data(), b.rows.size(), out_width)});

  std::vector<std::uint32_t> of_rows;
  std::vector<std::uint32_t> positions;
  for (const attention_row& row : b.rows) {
    of_rows.push_back(row.sequence);
    positions.push_back(row.position);
  }
  const device_array<bfloat16> q(s.on(), query);
  const device_array<std::uint32_t> device_positions(s.on(), positions);
  const device_array<std::uint32_t> device_tables(s.on(), tables);
  const device_array<float> device_sinks(s.on(), sinks);
  cuda::attention_args args{.cache = cache.layer,
                            .query = q.data(),
                            .heads = v.heads,
                            .rows = b.rows.size(),
                            .positions = device_positions.data(),
                            .block_tables = device_tables.data(),
                            .num_sequences = v.lengths.size(),
                            .table_width = b.table_width,
                            .scale = scale,
                            .sliding_window = v.window,
                            .chunk = v.chunk,
                            .sinks = v.sinks ? device_sinks.data() : nullptr,
                            .most_position = b.most_position};
  const std::string what = std::to_string(b.rows.size()) + " rows of " + std::to_string(v.lengths.size())
                           + " sequences, " + std::to_string(v.heads) + "/" + std::to_string(v.kv_heads)
                           + " heads of " + std::to_string(v.head_dim) + ", " + name_of(v.cache_type)
                           + (v.value_dim != 0 ? ", latent" : "") + (v.window != 0 ? ", window" : "")
                           + (v.chunk != 0 ? ", chunks" : "") + (v.sinks ? ", sinks" : "");
  // Both sides round probabilities to BF16, with different maxima, which changes a sum by about half a unit
  // times 1 / √keys.
  const auto got = attend(s, args, of_rows, positions, cuda::most_run_rows_for(v.heads / v.kv_heads));
  s.compare(what, got, want, {.relative = 0x1p-7, .element = 0x1p-5});

  // For any division of the rows: the same bits.
  s.compare_exact(what + ", in runs of 3", attend(s, args, of_rows, positions, 3), got);
  s.compare_exact(what + ", row by row", attend(s, args, of_rows, positions, 1), got);
  s.compare_exact(what + ", in runs of 40", attend(s, args, of_rows, positions, 40), got);

  // The last row alone, as in decoding: the same bits, and no other row is written.
  const std::size_t last = b.rows.size() - 1;
  const device_array<cuda::row_run> run(
      s.on(), std::vector<cuda::row_run>{
                  {static_cast<std::uint32_t>(last), 1, b.rows[last].sequence, b.rows[last].position}});
  const device_array<bfloat16> output(s.on(), got.size());
  const auto before = output.download(s.on());
  args.first_row = last;
  args.rows = 1;
  args.runs = run.data();
  args.num_runs = 1;
  args.most_run_rows = 1;
  args.output = output.data();
  const device_array<float> workspace(s.on(), cuda::attention_workspace_floats(args));
  args.workspace = workspace.data();
  cuda::attention(s.on(), args);
  auto alone = before;
  std::copy(got.end() - static_cast<std::ptrdiff_t>(out_width), got.end(),
            alone.end() - static_cast<std::ptrdiff_t>(out_width));
  s.compare_exact(what + ", the last alone", output.download(s.on()), alone);
}

/// @param is_latent  as of DeepSeek-V3, or heads of 128 dimensions, four to a KV head
void time_decode(session& s, std::size_t rows, std::uint32_t length, dtype type, bool is_latent = false) {
  const bool small = s.options().small;
  const std::size_t kv_heads = is_latent ? 1 : small ? 2 : 8;
  const std::size_t heads = is_latent && !small ? 128 : 4 * kv_heads;
  const std::size_t head_dim = small ? 16 : is_latent ? 576 : 128;
  const std::size_t blocks_each = (length + 15) / 16;
  cuda::kv_layer layer{.blocks = rows * blocks_each,
                       .block_tokens = 16,
                       .kv_heads = kv_heads,
                       .head_dim = head_dim,
                       .type = type,
                       .value_dim = !is_latent ? 0U
                                    : small    ? 8U
                                               : 512U};
  const std::size_t layer_bytes = layer.block_bytes() * layer.blocks;
  const std::size_t sets = s.sets_of(layer_bytes); // layers, one after the other
  const std::size_t all_blocks = layer.blocks * sets;
  // Random bytes that are numbers, as BF16 and as scales: from 0.5 to 2. One block, repeated.
  std::vector<std::byte> block(layer.block_bytes());
  std::generate(block.begin(), block.end(), [&, i = 0U]() mutable {
    return i++ % 2 == 0 ? static_cast<std::byte>(s.random()() & 0xffU) : std::byte{0x3f};
  });
  const device_array<std::byte> memory(s.on(), layer_bytes * sets);
  s.on().copy_to_device(memory.data(), block.data(), block.size());
  for (std::size_t filled = 1; filled < all_blocks; filled *= 2)
    s.on().copy_on_device(memory.data() + filled * block.size(), memory.data(),
                          std::min(filled, all_blocks - filled) * block.size());
  s.on().synchronize();
  std::vector<std::uint32_t> tables(rows * blocks_each);
  std::iota(tables.begin(), tables.end(), 0U);
  std::shuffle(tables.begin(), tables.end(), s.random());
  std::vector<cuda::row_run> runs;
  for (std::uint32_t r = 0; r < rows; ++r)
    runs.push_back({r, 1, r, length - 1});
  const device_array<std::uint32_t> device_tables(s.on(), tables);
  const device_array<cuda::row_run> device_runs(s.on(), runs);
  const device_array<std::uint32_t> positions(s.on(), std::vector<std::uint32_t>(rows, length - 1));
  const device_array<bfloat16> query(s.on(), s.normal_bf16(rows * heads * head_dim));
  const device_array<bfloat16> output(s.on(), rows * heads * head_dim);
  cuda::attention_args args{.cache = layer,
                            .query = query.data(),
                            .heads = heads,
                            .rows = rows,
                            .positions = positions.data(),
                            .runs = device_runs.data(),
                            .num_runs = rows,
                            .most_run_rows = 1,
                            .block_tables = device_tables.data(),
                            .num_sequences = rows,
                            .table_width = blocks_each,
                            .scale = 0.1F,
                            .most_position = length - 1,
                            .output = output.data()};
  const device_array<float> workspace(s.on(), cuda::attention_workspace_floats(args));
  args.workspace = workspace.data();
  s.time((is_latent ? "latent attention " : "attention ") + std::to_string(rows) + " rows, "
             + std::to_string(length) + " keys, " + name_of(type),
         {.bytes = static_cast<double>(layer_bytes),
          .flops = 2.0 * static_cast<double>(rows * length * heads)
                   * static_cast<double>(head_dim + layer.value_width())},
         sets, [&](std::size_t set) {
           args.cache.data = memory.data() + set * layer_bytes;
           cuda::attention(s.on(), args);
         });
}

// Rows [0, length) of one sequence: operations of both products over half of the keys on average.
void time_prefill(session& s, std::uint32_t length) {
  const std::size_t kv_heads = s.options().small ? 2 : 8;
  const std::size_t heads = 4 * kv_heads;
  const std::size_t head_dim = s.options().small ? 16 : 128;
  const std::size_t blocks = (length + 15) / 16;
  device_cache cache(s, blocks, 16, kv_heads, head_dim, dtype::bf16);
  const device_array<bfloat16> numbers(s.on(), s.normal_bf16(cache.layer.block_bytes() * blocks / 2));
  cache.layer.data = reinterpret_cast<std::byte*>(numbers.data());
  std::vector<std::uint32_t> table(blocks);
  std::iota(table.begin(), table.end(), 0U);
  const device_array<std::uint32_t> device_table(s.on(), table);
  const device_array<bfloat16> query(s.on(), s.normal_bf16(length * heads * head_dim));
  const device_array<bfloat16> output(s.on(), length * heads * head_dim);
  const std::size_t run_rows = cuda::most_run_rows_for(heads / kv_heads);
  std::vector<std::uint32_t> positions(length);
  std::iota(positions.begin(), positions.end(), 0U);
  const auto runs = cuda::runs_of(std::vector<std::uint32_t>(length), positions, run_rows);
  const device_array<cuda::row_run> device_runs(s.on(), runs);
  const device_array<std::uint32_t> device_positions(s.on(), positions);
  cuda::attention_args args{.cache = cache.layer,
                            .query = query.data(),
                            .heads = heads,
                            .rows = length,
                            .positions = device_positions.data(),
                            .runs = device_runs.data(),
                            .num_runs = runs.size(),
                            .most_run_rows = run_rows,
                            .block_tables = device_table.data(),
                            .num_sequences = 1,
                            .table_width = blocks,
                            .scale = 0.1F,
                            .most_position = length - 1,
                            .output = output.data()};
  const device_array<float> workspace(s.on(), cuda::attention_workspace_floats(args));
  args.workspace = workspace.data();
  s.time("attention of a prompt, " + std::to_string(length) + " rows, " + std::to_string(heads) + "/"
             + std::to_string(kv_heads) + " heads of " + std::to_string(head_dim),
         {.bytes = 0.0,
          .flops = 2.0 * static_cast<double>(length) * static_cast<double>(length)
                   * static_cast<double>(heads * head_dim)},
         1, [&](std::size_t) { cuda::attention(s.on(), args); });
}

} // namespace

void check_attention(session& s) {
  if (!s.begin("attention"))
    return;
  std::vector<attention_variant> variants = {
      {{1, 33, 70}, false, 4, 4, 16, 0, false, dtype::bf16},
      {{20, 3}, true, 6, 2, 40, 0, true, dtype::bf16},
      {{290}, false, 8, 1, 72, 37, false, dtype::bf16},
      {{65, 300}, false, 20, 1, 136, 0, true, dtype::int8},
      {{270}, true, 4, 2, 64, 40, false, dtype::int8},
      {{90}, false, 3, 1, 256, 64, false, dtype::int8},
      {.lengths = {290, 37},
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 40,
       .cache_type = dtype::bf16,
       .chunk = 270},
      {.lengths = {70},
       .all_rows = true,
       .heads = 2,
       .kv_heads = 1,
       .head_dim = 16,
       .sinks = true,
       .cache_type = dtype::int8,
       .chunk = 33},
      // A warp of each group has no part of such values, and the last one a part that does not fill it.
      latent({20, 3}, true, 6, 72, 56),
      latent({270, 1}, false, 40, 136, 136, 30),
      latent({33}, false, 16, 576, 512),
      latent({40}, false, 5, 640, 264),
  };
  if (!s.options().small)
    variants.insert(variants.end(), {
                                        {{1, 700, 2049, 513, 5}, false, 32, 8, 128, 0, false, dtype::bf16},
                                        {{1, 700, 2049, 513, 5}, false, 32, 8, 128, 0, false, dtype::int8},
                                        {{8000}, false, 16, 16, 64, 0, false, dtype::bf16},
                                        {{8000, 17}, false, 28, 4, 128, 1000, true, dtype::bf16},
                                        {{300, 41}, true, 16, 2, 128, 0, false, dtype::bf16},
                                        {{530}, true, 32, 4, 128, 0, false, dtype::int8},
                                        latent({1, 700, 2049, 513, 5}, false, 128, 576, 512),
                                        latent({300, 41}, true, 16, 576, 512),
                                        {.lengths = {8000, 530},
                                         .heads = 40,
                                         .kv_heads = 8,
                                         .head_dim = 128,
                                         .cache_type = dtype::bf16,
                                         .chunk = 1000},
                                    });
  for (const attention_variant& v : variants)
    check(s, v);
  if (!s.options().times)
    return;
  const bool small = s.options().small;
  time_decode(s, 1, small ? 70 : 8192, dtype::bf16);
  time_decode(s, small ? 2 : 8, small ? 70 : 8192, dtype::bf16);
  time_decode(s, small ? 2 : 8, small ? 70 : 8192, dtype::bf16, true);
  time_decode(s, small ? 2 : 64, small ? 70 : 8192, dtype::bf16);
  time_decode(s, small ? 2 : 64, small ? 70 : 8192, dtype::int8);
  time_prefill(s, small ? 70 : 2048);
}

} // namespace troupe::gpu_check
