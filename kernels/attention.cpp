#include "kernels/attention.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t tile_tokens = 16;

// Rows [first, first + tokens) of the batch, of one sequence.
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
             && args.output.cols == args.heads * group.head_dim,
         "attention: query or output is not [rows, heads · head_dim]");
  for (const attention_row& row : args.rows) {
    expect(row.sequence < args.sequences.size(), "attention: a row names no sequence");
    const auto& blocks = args.sequences[row.sequence].blocks;
    expect(row.position / args.cache->config().block_tokens < blocks.size(),
           "attention: a position lies outside its sequence's blocks");
  }
}

std::size_t tokens_of_block(const context& ctx, const attention_args& args) {
  const kv_layer_group& shape = args.cache->group_of(args.layer);
  const std::size_t group = args.heads / shape.kv_heads;
  const std::size_t pieces = args.rows.size() * args.heads; // of one row each
  const attention_plan& plan = ctx.plan().attention;
  std::size_t rows = plan.block_rows;
  if (shape.type != dtype::f32)
    while (2 * rows <= plan.most_block_rows && pieces / (2 * rows) >= plan.blocks_per_thread * ctx.threads())
      rows *= 2;
  return std::max<std::size_t>(1, rows / group);
}

// Runs of rows of the same sequence, cut to blocks.
std::span<row_block> list_blocks(const attention_args& args, std::size_t max_tokens, std::byte* memory) {
  auto* blocks = reinterpret_cast<row_block*>(memory);
  std::size_t count = 0;
  for (std::size_t r = 0; r < args.rows.size(); ++r) {
    if (count != 0 && blocks[count - 1].tokens < max_tokens
        && args.rows[blocks[count - 1].first].sequence == args.rows[r].sequence)
      ++blocks[count - 1].tokens;
    else
      blocks[count++] = {static_cast<std::uint32_t>(r), 1};
  }
  return {blocks, count};
}

std::size_t first_key(const attention_args& args, std::size_t position) {
  return args.sliding_window == 0 || position + 1 <= args.sliding_window ? 0
                                                                         : position + 1 - args.sliding_window;
}

// What a thread needs for one block: pointers to tiles and rows, then the kernel's own scratch.
struct block_memory {
  const std::byte** key_tiles;
  const std::byte** value_tiles;
  const std::byte** query;
  std::byte** output;
  std::size_t* first;
  std::size_t* end;
  std::byte* scratch;
};

std::size_t pointer_bytes(std::size_t tiles, std::size_t tokens) {
  return ((2 * tiles + 4 * tokens) * sizeof(void*) + 63) / 64 * 64;
}

block_memory carve(std::byte* memory, std::size_t tiles, std::size_t tokens) {
  static_assert(sizeof(std::size_t) == sizeof(void*));
  auto* keys = reinterpret_cast<const std::byte**>(memory);
  block_memory m{keys, keys + tiles, keys + 2 * tiles, nullptr, nullptr, nullptr, nullptr};
  m.output = reinterpret_cast<std::byte**>(memory) + 2 * tiles + tokens;
  m.first = reinterpret_cast<std::size_t*>(m.output + tokens);
  m.end = m.first + tokens;
  m.scratch = memory + pointer_bytes(tiles, tokens);
  return m;
}

void run_block(context& ctx, const attention_args& args, const row_block& rows, std::size_t kv_head,
               const block_memory& memory) {
  const kv_cache& cache = *args.cache;
  const kv_layer_group& shape = cache.group_of(args.layer);
  const std::size_t group = args.heads / shape.kv_heads;
  const std::size_t column = kv_head * group * shape.head_dim;
  std::size_t end = 0;
  auto begin = static_cast<std::size_t>(-1);
  for (std::size_t t = 0; t < rows.tokens; ++t) {
    const std::size_t position = args.rows[rows.first + t].position;
    memory.query[t] = args.query.row(rows.first + t) + bytes_of(args.query.type, column);
    memory.output[t] = args.output.row(rows.first + t) + bytes_of(args.output.type, column);
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
  // Tiles before the first chunk that anybody sees are never touched.
  for (std::size_t i = begin / attention_chunk * (attention_chunk / tile_tokens); i < tiles; ++i) {
    const std::byte* block = cache.head_block(args.layer, blocks[i / per_block], kv_head);
    memory.key_tiles[i] = block + i % per_block * (key_bytes / per_block);
    memory.value_tiles[i] = block + key_bytes + i % per_block * (value_bytes / per_block);
  }
  const attention_plan& plan = ctx.plan().attention;
  const kernel_table& table = ctx.table(plan.set);
  const bool columns = rows.tokens * group > plan.row_kernel_rows && table.attention_columns != nullptr;
  (columns ? table.attention_columns : table.attention)(
      {memory.key_tiles, memory.value_tiles, tiles, shape.type, shape.head_dim, memory.query, args.query.type,
       memory.output, args.output.type, rows.tokens, group, memory.first, memory.end, args.scale,
       args.sinks != nullptr ? args.sinks + kv_head * group : nullptr, memory.scratch});
}

} // namespace

void attention(context& ctx, const attention_args& args) {
  check(args);
  if (args.rows.empty())
    return;
  const kv_layer_group& shape = args.cache->group_of(args.layer);
  const std::size_t group = args.heads / shape.kv_heads;
  const std::size_t max_tokens = tokens_of_block(ctx, args);
  const std::span<row_block> blocks =
      list_blocks(args, max_tokens, ctx.shared_scratch(args.rows.size() * sizeof(row_block)));
  std::size_t tiles = 0;
  std::size_t work = 0;
  for (const attention_row& row : args.rows) {
    tiles = std::max(tiles, row.position / tile_tokens + 1);
    work += (row.position + 1 - first_key(args, row.position)) * args.heads * shape.head_dim * 2;
  }
  const std::size_t num_bytes =
      pointer_bytes(tiles, max_tokens) + attention_scratch_bytes(max_tokens * group, shape.head_dim);
  const std::size_t items = blocks.size() * shape.kv_heads;
  const auto run = [&](unsigned thread, std::size_t begin, std::size_t end) {
    const block_memory memory = carve(ctx.thread_scratch(thread, num_bytes), tiles, max_tokens);
    // In rising order: threads begin with the sequences whose keys they have just written.
    for (std::size_t i = begin; i < end; ++i)
      run_block(ctx, args, blocks[i / shape.kv_heads], i % shape.kv_heads, memory);
  };
  work += items * ctx.plan().attention.work_of_head;
  ctx.pool().parallel_dynamic(items, work < ctx.plan().attention.least_work ? items : 1, run);
}

} // namespace troupe::kernels
