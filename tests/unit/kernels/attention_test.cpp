#include "kernels/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

struct options {
  std::size_t heads = 4;
  std::size_t kv_heads = 2;
  std::size_t head_dim = 64;
  dtype type = dtype::bf16;
  std::size_t block_tokens = 16;
  std::size_t window = 0;
  bool sinks = false;
  std::size_t value_dim = 0; // not 0: latent
  std::size_t chunk = 0;

  std::size_t value_width() const { return value_dim != 0 ? value_dim : head_dim; }
};

// One sequence with keys, values and queries for every position, in scattered blocks.
struct sequence_data {
  options o;
  std::size_t tokens;
  std::vector<float> queries;
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> sinks;
  std::vector<std::uint32_t> blocks;
  kv_cache cache;
  float scale;

  sequence_data(const options& choice, std::size_t count, unsigned seed = 1)
      : o(choice),
        tokens(count),
        queries(random_floats(count * o.heads * o.head_dim, seed)),
        keys(random_floats(count * o.kv_heads * o.head_dim, seed + 1)),
        values(random_floats(count * o.kv_heads * o.head_dim, seed + 2)),
        sinks(random_floats(o.heads, seed + 3)),
        scale(1.0F / std::sqrt(static_cast<float>(o.head_dim))) {
    const std::size_t needed = (count + o.block_tokens - 1) / o.block_tokens;
    for (std::size_t i = 0; i < needed; ++i)
      blocks.push_back(static_cast<std::uint32_t>((i * 3 + 1) % (3 * needed + 1)));
    cache = kv_cache({{{1, o.kv_heads, o.head_dim, o.type, o.value_dim}}, o.block_tokens}, 3 * needed + 1);
  }

  std::uint32_t slot(std::size_t position) const {
    return static_cast<std::uint32_t>(blocks[position / o.block_tokens] * o.block_tokens
                                      + position % o.block_tokens);
  }

  void write(context& ctx, std::size_t first, std::size_t count) {
    std::vector<std::uint32_t> slots;
    for (std::size_t i = 0; i < count; ++i)
      slots.push_back(slot(first + i));
    const std::size_t columns = o.kv_heads * o.head_dim;
    kv_write(ctx, {&cache, 0, view_of(keys.data() + first * columns, count, columns),
                   o.value_dim != 0 ? const_tensor_view{}
                                    : view_of(values.data() + first * columns, count, columns),
                   slots});
  }

  // Attention of positions [first, first + count).
  std::vector<float> attend(context& ctx, std::size_t first, std::size_t count) const {
    const std::size_t columns = o.heads * o.head_dim;
    const std::size_t out_columns = o.heads * o.value_width();
    std::vector<float> out(count * out_columns, poison);
    std::vector<attention_row> rows;
    for (std::size_t i = 0; i < count; ++i)
      rows.push_back({0, static_cast<std::uint32_t>(first + i)});
    const std::vector<attention_sequence> sequences{{blocks}};
    attention(ctx, {.cache = &cache,
                    .layer = 0,
                    .query = view_of(queries.data() + first * columns, count, columns),
                    .heads = o.heads,
                    .rows = rows,
                    .sequences = sequences,
                    .scale = scale,
                    .sliding_window = o.window,
                    .chunk = o.chunk,
                    .sinks = o.sinks ? sinks.data() : nullptr,
                    .output = view_of(out.data(), count, out_columns)});
    return out;
  }

  float multiplied(float query) const { return o.type == dtype::f32 ? query : to_float(to_bfloat16(query)); }

  // softmax(scale q k) v of one row and head in double, with keys and values as stored in the cache.
  std::vector<double> exact(std::size_t position, std::size_t head) const {
    const std::size_t kv = head / (o.heads / o.kv_heads);
    const std::size_t first = o.chunk != 0                               ? position / o.chunk * o.chunk
                              : o.window != 0 && position + 1 > o.window ? position + 1 - o.window
                                                                         : 0;
    const auto columns = o.kv_heads * o.head_dim;
    std::vector<std::vector<float>> cached_keys;
    std::vector<std::vector<float>> cached_values;
    for (std::size_t k = first; k <= position; ++k) {
      cached_keys.emplace_back(columns);
      cached_values.emplace_back(columns);
      kv_read(cache, 0, slot(k), cached_keys.back(), cached_values.back());
      if (o.value_dim != 0)
        cached_values.back() = cached_keys.back();
    }
    std::vector<double> scores;
    double top = o.sinks ? static_cast<double>(sinks[head]) : -std::numeric_limits<double>::infinity();
    for (std::size_t k = first; k <= position; ++k) {
      double dot = 0.0;
      for (std::size_t d = 0; d < o.head_dim; ++d)
        dot += static_cast<double>(multiplied(queries[(position * o.heads + head) * o.head_dim + d]))
               * static_cast<double>(cached_keys[k - first][kv * o.head_dim + d]);
      scores.push_back(dot * static_cast<double>(scale));
      top = std::max(top, scores.back());
    }
    double sum = o.sinks ? std::exp(static_cast<double>(sinks[head]) - top) : 0.0;
    std::vector<double> out(o.value_width());
    for (std::size_t k = first; k <= position; ++k) {
      const double p = std::exp(scores[k - first] - top);
      sum += p;
      for (std::size_t d = 0; d < out.size(); ++d)
        out[d] += p * static_cast<double>(cached_values[k - first][kv * o.head_dim + d]);
    }
    for (double& value : out)
      value /= sum;
    return out;
  }
};

std::vector<options> interesting() {
  return {{},
          {.type = dtype::f32},
          {.heads = 3, .kv_heads = 3, .head_dim = 40},
          {.heads = 3, .kv_heads = 1, .head_dim = 8, .type = dtype::f32},
          {.head_dim = 32, .block_tokens = 32},
          {.head_dim = 72, .type = dtype::f32, .block_tokens = 32, .window = 50},
          {.window = 33, .sinks = true},
          {.heads = 8, .kv_heads = 1, .head_dim = 256, .window = 7},
          {.heads = 2, .kv_heads = 1, .head_dim = 128, .sinks = true},
          {.type = dtype::int8},
          {.heads = 3, .kv_heads = 3, .head_dim = 40, .type = dtype::int8, .block_tokens = 32},
          {.heads = 12, .kv_heads = 1, .head_dim = 16, .type = dtype::int8, .window = 33, .sinks = true},
          {.heads = 5, .kv_heads = 1, .head_dim = 256, .type = dtype::int8, .window = 7},
          {.heads = 5, .kv_heads = 1, .head_dim = 72, .value_dim = 56},
          {.heads = 33, .kv_heads = 1, .head_dim = 24, .sinks = true, .value_dim = 16},
          {.heads = 18, .kv_heads = 1, .head_dim = 40, .type = dtype::f32, .value_dim = 24},
          {.heads = 2, .kv_heads = 1, .head_dim = 576, .block_tokens = 32, .window = 20, .value_dim = 512},
          {.heads = 1, .kv_heads = 1, .head_dim = 640, .window = 9, .value_dim = 8},
          {.chunk = 48},
          {.type = dtype::f32, .sinks = true, .chunk = 33},
          {.type = dtype::int8, .chunk = 64}};
}

} // namespace

TEST(attention, is_near_the_definition) {
  reference_context reference;
  for (const options& o : interesting()) {
    sequence_data s(o, 150);
    s.write(reference.ctx, 0, s.tokens);
    const auto got = s.attend(reference.ctx, 0, s.tokens);
    // bf16 and int8 round p (2⁻⁹ relative, on values of magnitude up to 5, averaged); f32 is limited by exp
    // and sums.
    const double tolerance = o.type == dtype::f32 ? 2e-5 : 5.0 * 0x1p-9;
    for (const std::size_t position : {0UL, 1UL, 15UL, 31UL, 32UL, 63UL, 64UL, 100UL, 149UL})
      for (std::size_t h = 0; h < o.heads; ++h) {
        const auto want = s.exact(position, h);
        for (std::size_t d = 0; d < want.size(); ++d)
          ASSERT_NEAR(static_cast<double>(got[(position * o.heads + h) * want.size() + d]), want[d],
                      tolerance)
              << position << ' ' << h << ' ' << d;
      }
  }
}

TEST(attention, gives_the_same_bits_however_it_is_cut) {
  for (const options& o : interesting()) {
    constexpr std::size_t tokens = 150;
    reference_context reference;
    sequence_data whole(o, tokens);
    whole.write(reference.ctx, 0, tokens);
    const auto expected = whole.attend(reference.ctx, 0, tokens);
    const std::size_t columns = o.heads * o.value_width();
    with_every_context([&](context& ctx) {
      for (const std::size_t chunk : {1UL, 7UL, 64UL, tokens}) {
        if (chunk == 1 && ctx.instruction_set() == isa::portable && ctx.threads() != 2)
          continue; // slow, and the same as with two threads
        // As in a server: write a chunk, attend, continue.
        sequence_data s(o, tokens);
        for (std::size_t first = 0; first < tokens; first += chunk) {
          const std::size_t count = std::min(chunk, tokens - first);
          s.write(ctx, first, count);
          const auto got = s.attend(ctx, first, count);
          ASSERT_TRUE(same_bits(std::span<const float>(got),
                                std::span<const float>(expected).subspan(first * columns, count * columns)))
              << name_of(ctx.instruction_set()) << " chunk " << chunk << " at " << first;
        }
      }
    });
  }
}

void expect_single_rows(const options& o) {
  constexpr std::size_t tokens = 512;
  thread_pool pool({.threads = 2});
  context ctx(pool, detect());
  sequence_data s(o, tokens);
  s.write(ctx, 0, tokens);
  const auto all = s.attend(ctx, 0, tokens);
  const std::size_t columns = o.heads * o.value_width();
  for (std::size_t r = 0; r < tokens; ++r)
    ASSERT_TRUE(same_bits(std::span<const float>(s.attend(ctx, r, 1)),
                          std::span<const float>(all).subspan(r * columns, columns)))
        << r;
}

TEST(attention, a_prefill_of_512_is_512_single_rows) {
  expect_single_rows({});
}

TEST(attention, a_prefill_of_512_is_512_single_rows_with_an_int8_cache) {
  expect_single_rows({.type = dtype::int8});
}

TEST(attention, a_prefill_of_512_is_512_single_rows_with_a_latent_cache) {
  expect_single_rows({.heads = 20, .kv_heads = 1, .head_dim = 72, .value_dim = 64});
}

TEST(attention, a_latent_cache_is_one_whose_values_are_its_keys) {
  constexpr std::size_t tokens = 70;
  for (const dtype type : {dtype::bf16, dtype::f32})
    with_every_context([&](context& ctx) {
      const options o{.heads = 20, .kv_heads = 1, .head_dim = 72, .type = type};
      options latent = o;
      latent.value_dim = 56;
      sequence_data twice(o, tokens);
      twice.values = twice.keys;
      twice.write(ctx, 0, tokens);
      sequence_data once(latent, tokens);
      once.write(ctx, 0, tokens);
      for (const std::size_t rows : {1UL, tokens}) { // the last ones
        const auto expected = twice.attend(ctx, tokens - rows, rows);
        const auto got = once.attend(ctx, tokens - rows, rows);
        for (std::size_t i = 0; i < rows * o.heads; ++i)
          ASSERT_TRUE(same_bits(std::span(got).subspan(i * 56, 56), std::span(expected).subspan(i * 72, 56)))
              << name_of(ctx.instruction_set()) << ' ' << name_of(type) << ' ' << i;
      }
    });
}

TEST(attention, rows_of_many_sequences_mix_in_any_order) {
  // Two sequences in one cache, rows shuffled: each row has the bits that it has alone.
  const options o{.heads = 2, .kv_heads = 1, .head_dim = 32};
  with_every_context([&](context& ctx) {
    sequence_data s(o, 90);
    s.write(ctx, 0, 90);
    const std::vector<std::uint32_t> other(s.blocks.rbegin(), s.blocks.rend());
    const std::vector<attention_sequence> sequences{{s.blocks}, {other}};
    const std::vector<attention_row> rows{{1, 70}, {0, 5}, {0, 89}, {1, 3}, {1, 4}, {0, 40}};
    const std::size_t columns = o.heads * o.head_dim;
    const auto run = [&](std::span<const attention_row> some, std::size_t first) {
      std::vector<float> out(some.size() * columns, poison);
      attention(ctx, {.cache = &s.cache,
                      .query = view_of(s.queries.data() + first * columns, some.size(), columns),
                      .heads = o.heads,
                      .rows = some,
                      .sequences = sequences,
                      .scale = s.scale,
                      .output = view_of(out.data(), some.size(), columns)});
      return out;
    };
    const auto all = run(rows, 0);
    for (std::size_t r = 0; r < rows.size(); ++r)
      EXPECT_TRUE(same_bits(std::span<const float>(run(std::span(rows).subspan(r, 1), r)),
                            std::span<const float>(all).subspan(r * columns, columns)))
          << r;
  });
}

TEST(attention, keys_that_are_not_seen_do_no_harm) {
  std::vector<options> choices;
  for (const dtype type : {dtype::bf16, dtype::f32, dtype::int8}) {
    choices.push_back({.type = type, .window = 40});
    choices.push_back({.type = type, .chunk = 20});
  }
  for (const dtype type : {dtype::bf16, dtype::f32})
    choices.push_back(
        {.heads = 20, .kv_heads = 1, .head_dim = 128, .type = type, .window = 40, .value_dim = 112});
  for (const options& o : choices) {
    reference_context reference;
    sequence_data clean(o, 64);
    clean.write(reference.ctx, 0, 50);
    const auto expected = clean.attend(reference.ctx, 49, 1);
    with_every_context([&](context& ctx) {
      sequence_data dirty(o, 64);
      dirty.write(ctx, 0, 64);
      for (const std::size_t position : {0UL, 9UL, 50UL, 51UL, 63UL}) { // before what it sees, after the row
        std::fill_n(dirty.keys.begin() + static_cast<long>(position * 128), 128, std::nanf(""));
        std::fill_n(dirty.values.begin() + static_cast<long>(position * 128), 128, std::nanf(""));
        dirty.write(ctx, position, 1);
      }
      EXPECT_TRUE(same_bits(dirty.attend(ctx, 49, 1), expected)) << name_of(ctx.instruction_set());
    });
  }
}

TEST(attention, a_value_that_is_no_number_stays_with_the_rows_that_see_it) {
  constexpr std::size_t tokens = 70;
  constexpr std::size_t sick = 45; // in the middle of a chunk that some rows see half of
  for (const options& o : {options{}, options{.type = dtype::f32}, options{.type = dtype::int8},
                           options{.heads = 20, .kv_heads = 1, .value_dim = 56},
                           options{.heads = 3, .kv_heads = 1, .type = dtype::f32, .value_dim = 56}})
    for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      const auto make = [&](context& ctx) {
        sequence_data data(o, tokens);
        const std::size_t columns = o.kv_heads * o.head_dim;
        auto& numbers = o.value_dim != 0 ? data.keys : data.values;
        std::fill_n(numbers.begin() + static_cast<long>(sick * columns), columns, value);
        data.write(ctx, 0, tokens);
        return data;
      };
      reference_context reference;
      std::vector<float> expected;
      const sequence_data alone = make(reference.ctx);
      for (std::size_t i = 0; i < sick; ++i) {
        const auto row = alone.attend(reference.ctx, i, 1);
        expected.insert(expected.end(), row.begin(), row.end());
      }
      with_every_context([&](context& ctx) {
        auto all = make(ctx).attend(ctx, 0, tokens);
        EXPECT_FALSE(std::isfinite(all.back())) << name_of(ctx.instruction_set());
        all.resize(expected.size());
        EXPECT_TRUE(same_bits(all, expected)) << name_of(ctx.instruction_set());
      });
    }
}

TEST(attention, takes_and_gives_bf16_rows) {
  const options o{.head_dim = 40};
  with_every_context([&](context& ctx) {
    sequence_data s(o, 40);
    s.write(ctx, 0, 40);
    const auto wide = s.attend(ctx, 39, 1);
    const std::size_t columns = o.heads * o.head_dim;
    const auto query = rounded({s.queries.begin() + static_cast<long>(39 * columns), s.queries.end()});
    std::vector<bfloat16> narrow(columns);
    const std::vector<attention_row> rows{{0, 39}};
    const std::vector<attention_sequence> sequences{{s.blocks}};
    attention(ctx, {.cache = &s.cache,
                    .query = view_of(query.data(), 1, columns),
                    .heads = o.heads,
                    .rows = rows,
                    .sequences = sequences,
                    .scale = s.scale,
                    .output = view_of(narrow.data(), 1, columns)});
    EXPECT_TRUE(same_bits(narrow, rounded(wide)));
  });
}

TEST(attention, takes_no_rows) {
  reference_context reference;
  sequence_data s({}, 4);
  EXPECT_TRUE(s.attend(reference.ctx, 0, 0).empty());
}

} // namespace troupe::kernels
