#include "kernels/attention.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t tile_tokens = 16;

// Fewest heads of an item: they share the making of a latent chunk's values.
constexpr std::size_t least_latent_heads = 4;

// Rows [first, first + tokens) of the batch; all of one sequence.
struct row_block {
  std::uint32_t first;
  std::uint32_t tokens;
};

void check(const attention_args& args) {
  expect(args.cache != nullptr && args.layer < args.cache->config().layers(), "attention: no such layer");
  const kv_layer_group& group = args.cache->group_of(args.layer);
  expect(args.heads != 0 && args.heads % group.kv_heads == 0,
         "attention: heads are not a multiple of the KV heads");
  expect(args.query.rows == args.rows.size() && args.output.rows == args.rows.size()
             && args.query.cols == args.heads * group.head_dim
             && args.output.cols == args.heads * group.value_width(),
         "attention: query or output is not [rows, heads · head_dim]");
  expect(args.chunk == 0 || args.sliding_window == 0, "attention: both a chunk and a sliding window");
  for (const attention_row& row : args.rows) {
    expect(row.sequence < args.sequences.size(), "attention: a row names no sequence");
    const auto& blocks = args.sequences[row.sequence].blocks;
    expect(row.position / args.cache->config().block_tokens < blocks.size(),
           "attention: a position lies outside its sequence's blocks");
  }
}

// The query rows of an item.
struct item_shape {
  std::size_t tokens; // at most
  std::size_t heads;  // at most, of the group of a KV head
};

item_shape shape_of_items(const context& ctx, const attention_args& args) {
  const kv_layer_group& shape = args.cache->group_of(args.layer);
  const std::size_t group = args.heads / shape.kv_heads;
  const std::size_t pieces = args.rows.size() * args.heads; // of one row each
  const attention_plan& plan = ctx.plan().attention;
  std::size_t rows = plan.block_rows;
  if (shape.type != dtype::f32)
    while (2 * rows <= plan.most_block_rows && pieces / (2 * rows) >= plan.blocks_per_thread * ctx.threads())
      rows *= 2;
  item_shape item{std::max<std::size_t>(1, rows / group), group};
  if (!shape.is_latent())
    return item;
  // All heads share one KV head: they are split, too, so that a block does not grow with them and one row of
  // decoding is work for several threads.
  item.heads = std::min(group, rows);
  const std::size_t blocks = (args.rows.size() + item.tokens - 1) / item.tokens;
  const auto parts = [&] { return (group + item.heads - 1) / item.heads; };
  while (item.heads > least_latent_heads && blocks * parts() < ctx.threads())
    item.heads = (item.heads + 1) / 2;
  item.heads = (group + parts() - 1) / parts();
  return item;
}

// Runs of rows of the same sequence, cut to blocks.
std::span<row_block> list_blocks(const attention_args& args, std::size_t max_tokens, std::byte* memory) {
  auto* blocks = reinterpret_cast<row_block*>(memory);
  std::size_t count = 0;
  for (std::size_t r = 0; r < args.rows.size(); ++r)
    if (count != 0 && blocks[count - 1].tokens < max_tokens
        && args.rows[blocks[count - 1].first].sequence == args.rows[r].sequence)
      ++blocks[count - 1].tokens;
    else
      blocks[count++] = {static_cast<std::uint32_t>(r), 1};
  return {blocks, count};
}

std::size_t first_key(const attention_args& args, std::size_t position) {
  if (args.chunk != 0)
    return position / args.chunk * args.chunk;
  return args.sliding_window == 0 || position + 1 <= args.sliding_window ? 0
                                                                         : position + 1 - args.sliding_window;
}

// A thread's memory for one block: pointers to tiles and rows, then the kernel's own scratch.
struct block_memory {
  const std::byte** key_tiles;
  const std::byte** value_tiles;
  const std::byte** query;
  std::byte** output;
  std::size_t* first;
  std::size_t* end;
  std::byte* latent_values;
  std::byte* scratch;
};

std::size_t pointer_bytes(std::size_t tiles, std::size_t tokens) {
  return ((2 * tiles + 4 * tokens) * sizeof(void*) + 63) / 64 * 64;
}

std::size_t latent_bytes(const kv_layer_group& shape) {
  return shape.is_latent() ? latent_values_bytes(shape.type, shape.value_dim) : 0;
}

block_memory carve(std::byte* memory, const kv_layer_group& shape, std::size_t tiles, std::size_t tokens) {
  static_assert(sizeof(std::size_t) == sizeof(void*));
  auto* keys = reinterpret_cast<const std::byte**>(memory);
  block_memory m{keys, keys + tiles, keys + 2 * tiles, nullptr, nullptr, nullptr, nullptr, nullptr};
  m.output = reinterpret_cast<std::byte**>(memory) + 2 * tiles + tokens;
  m.first = reinterpret_cast<std::size_t*>(m.output + tokens);
  m.end = m.first + tokens;
  m.latent_values = memory + pointer_bytes(tiles, tokens);
  m.scratch = m.latent_values + latent_bytes(shape);
  return m;
}

// Query heads of one KV head.
struct head_range {
  std::size_t kv_head;
  std::size_t first;
  std::size_t count;
};

void run_block(context& ctx, const attention_args& args, const row_block& rows, const head_range& heads,
               const block_memory& memory) {
  const kv_cache& cache = *args.cache;
  const kv_layer_group& shape = cache.group_of(args.layer);
  std::size_t end = 0;
  auto begin = static_cast<std::size_t>(-1);
  for (std::size_t t = 0; t < rows.tokens; ++t) {
    const std::size_t position = args.rows[rows.first + t].position;
    memory.query[t] =
        args.query.row(rows.first + t) + bytes_of(args.query.type, heads.first * shape.head_dim);
    memory.output[t] =
        args.output.row(rows.first + t) + bytes_of(args.output.type, heads.first * shape.value_width());
    memory.first[t] = first_key(args, position);
    memory.end[t] = position + 1;
    begin = std::min(begin, memory.first[t]);
    end = std::max(end, memory.end[t]);
  }
  const auto& blocks = args.sequences[args.rows[rows.first].sequence].blocks;
  const std::size_t tiles = (end + tile_tokens - 1) / tile_tokens;
  const std::size_t per_block = cache.config().block_tokens / tile_tokens;
  const std::size_t key_bytes = cache.head_key_bytes(args.layer);
  const std::size_t value_bytes = cache.head_block_bytes(args.layer) - key_bytes;
  // Tiles before the first visible chunk are never touched.
  for (std::size_t i = begin / attention_chunk * (attention_chunk / tile_tokens); i < tiles; ++i) {
    const std::byte* block = cache.head_block(args.layer, blocks[i / per_block], heads.kv_head);
    memory.key_tiles[i] = block + i % per_block * (key_bytes / per_block);
    memory.value_tiles[i] = block + key_bytes + i % per_block * (value_bytes / per_block);
  }
  const attention_plan& plan = ctx.plan().attention;
  const kernel_table& table = ctx.table(plan.set);
  const bool columns = rows.tokens * heads.count > plan.row_kernel_rows && table.attention_columns != nullptr;
  (columns ? table.attention_columns
           : table.attention)({.key_tiles = memory.key_tiles,
                               .value_tiles = shape.is_latent() ? nullptr : memory.value_tiles,
                               .num_tiles = tiles,
                               .cache_type = shape.type,
                               .head_dim = shape.head_dim,
                               .value_dim = shape.value_width(),
                               .query = memory.query,
                               .query_type = args.query.type,
                               .output = memory.output,
                               .output_type = args.output.type,
                               .tokens = rows.tokens,
                               .group = heads.count,
                               .first_key = memory.first,
                               .end_key = memory.end,
                               .scale = args.scale,
                               .sinks = args.sinks != nullptr ? args.sinks + heads.first : nullptr,
                               .scratch = memory.scratch,
                               .latent_values = memory.latent_values});
}

} // namespace

void attention(context& ctx, const attention_args& args) {
  check(args);
  if (args.rows.empty())
    return;
  const kv_layer_group& shape = args.cache->group_of(args.layer);
  const std::size_t group = args.heads / shape.kv_heads;
  const item_shape item = shape_of_items(ctx, args);
  const std::size_t parts = (group + item.heads - 1) / item.heads; // of a KV head's group
  const std::span<row_block> blocks =
      list_blocks(args, item.tokens, ctx.shared_scratch(args.rows.size() * sizeof(row_block)));
  std::size_t tiles = 0;
  std::size_t work = 0;
  for (const attention_row& row : args.rows) {
    tiles = std::max(tiles, row.position / tile_tokens + 1);
    work += (row.position + 1 - first_key(args, row.position)) * args.heads
            * (shape.head_dim + shape.value_width());
  }
  const std::size_t num_bytes = pointer_bytes(tiles, item.tokens) + latent_bytes(shape)
                                + attention_scratch_bytes(item.tokens * item.heads, shape.head_dim);
  const std::size_t items_of_block = shape.kv_heads * parts;
  const std::size_t items = blocks.size() * items_of_block;
  const auto run = [&](unsigned thread, std::size_t begin, std::size_t end) {
    const block_memory memory = carve(ctx.thread_scratch(thread, num_bytes), shape, tiles, item.tokens);
    // In rising order: threads begin with the sequences whose keys they have just written.
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t kv_head = i % items_of_block / parts;
      const std::size_t first = i % parts * item.heads; // in the group
      run_block(ctx, args, blocks[i / items_of_block],
                {kv_head, kv_head * group + first, std::min(item.heads, group - first)}, memory);
    }
  };
  work += items * ctx.plan().attention.work_of_head;
  ctx.pool().parallel_dynamic(items, work < ctx.plan().attention.least_work ? items : 1, run);
}

} // namespace troupe::kernels
