#include "tests/bench/kernel_cases.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/head_products.hpp"
#include "kernels/norm.hpp"
#include "kernels/sampling.hpp"

namespace troupe::bench {

namespace {

using namespace kernels;

// Size of a round's weights: servers have L3 caches of hundreds of MiB.
constexpr std::size_t beyond_caches = std::size_t{768} << 20;

// Weights, and the rows that they meet.
struct weight_kind {
  const char* name;
  packed_format format;
  dtype row_type;
  row_quant rows;
  arithmetic unit;
};

constexpr weight_kind weight_kinds[] = {
    {"bf16", packed_format::bf16_pair, dtype::bf16, row_quant::none, arithmetic::bf16},
    {"coded bf16", packed_format::bf16_coded, dtype::bf16, row_quant::none, arithmetic::bf16},
    {"int8, rows int8", packed_format::int8_channel, dtype::bf16, row_quant::int8, arithmetic::int8},
    {"int4, rows int8", packed_format::int4_group32, dtype::bf16, row_quant::int8, arithmetic::int4},
    {"f32", packed_format::f32_panel, dtype::f32, row_quant::none, arithmetic::f32},
};

class kernel_cases {
 public:
  kernel_cases(context& ctx, kernel_report& report) : ctx_(ctx), report_(report) {}

  void products(const weight_kind& kind) {
    constexpr std::size_t k = 1024;
    constexpr std::size_t n = 3584;
    const std::string name = std::string("gemm ") + kind.name + ", 1024 x 3584, rows ";
    if (!report_.wants_some_of(name))
      return;
    std::vector<matrix_copy> copies;
    const packed_matrix original = weights(kind, n, k);
    const std::size_t num_bytes = original.bytes().size();
    for (std::size_t total = 0; total < beyond_caches; total += num_bytes)
      copies.emplace_back(original);
    tensor x = rows(kind.row_type, 512, k);
    tensor y(dtype::f32, 512, n);
    for (const std::size_t m : {1UL, 2UL, 4UL, 6UL, 8UL, 12UL, 16UL, 32UL, 128UL, 512UL})
      report_.measure(
          name + std::to_string(m), static_cast<double>(num_bytes), static_cast<double>(m) * n * k,
          [&](std::size_t i) {
            gemm(ctx_,
                 {.input = x.first(m), .weight = &copies[i % copies.size()].matrix, .output = y.first(m)});
          },
          kind.unit);
  }

  void experts(const weight_kind& kind) {
    constexpr std::size_t hidden = 1024;
    constexpr std::size_t ffn = 1792;
    constexpr std::size_t num_experts = 16;
    const std::string name = std::string("expert_ffn ") + kind.name + ", 1024 x 1792, 16 top-2, batch ";
    if (!report_.wants_some_of(name))
      return;
    const packed_matrix gate_up = weights(kind, ffn, hidden, true);
    const packed_matrix down = weights(kind, hidden, ffn);
    const std::size_t num_bytes = gate_up.bytes().size() + down.bytes().size();
    // Enough layers to exceed all caches.
    const std::size_t layers = std::max<std::size_t>(2, beyond_caches / (num_experts * num_bytes));
    std::vector<matrix_copy> copies;
    std::vector<expert_weights> all(layers * num_experts);
    for (auto& expert : all) {
      copies.emplace_back(gate_up);
      expert.gate_up = std::move(copies.back().matrix);
      copies.emplace_back(down);
      expert.down = std::move(copies.back().matrix);
    }
    for (const std::size_t batch : {1UL, 8UL, 32UL, 512UL}) {
      tensor x = rows(kind.row_type, batch, hidden);
      tensor y(kind.row_type, 2 * batch, hidden);
      // Some fixed routings, two distinct experts a token.
      constexpr std::size_t routings = 8;
      std::vector<std::vector<std::vector<const std::byte*>>> from(routings);
      std::vector<std::vector<std::vector<std::byte*>>> to(routings);
      double active = 0.0;
      for (std::size_t v = 0; v < routings; ++v) {
        from[v].resize(num_experts);
        to[v].resize(num_experts);
        for (std::size_t b = 0; b < batch; ++b) {
          const std::size_t first = random_() % num_experts;
          const std::size_t second = (first + 1 + random_() % (num_experts - 1)) % num_experts;
          from[v][first].push_back(x.view().row(b));
          to[v][first].push_back(y.view().row(2 * b));
          from[v][second].push_back(x.view().row(b));
          to[v][second].push_back(y.view().row(2 * b + 1));
        }
        for (const auto& list : from[v])
          active += list.empty() ? 0.0 : 1.0 / routings;
      }
      std::vector<expert_segment> segments(num_experts);
      report_.measure(
          name + std::to_string(batch), active * static_cast<double>(num_bytes),
          static_cast<double>(2 * batch) * 3 * hidden * ffn,
          [&](std::size_t i) {
            // Every routing is used with every layer: otherwise more of them would stay in the L3 cache at
            // batch 1.
            const std::size_t v = i % routings;
            const std::size_t layer = (i + i / routings) % layers;
            for (std::size_t e = 0; e < num_experts; ++e)
              segments[e] = {&all[layer * num_experts + e], from[v][e], to[v][e]};
            expert_ffn(ctx_, {segments, kind.row_type});
          },
          kind.unit);
    }
  }

  void attentions(dtype type) {
    constexpr std::size_t heads = 16;
    constexpr std::size_t kv_heads = 4;
    constexpr std::size_t head_dim = 64;
    constexpr std::size_t context_tokens = 2048;
    constexpr std::size_t layers = 64;
    const kv_cache_config config{{{layers, kv_heads, head_dim, type}}, 16};
    kv_cache cache(config, context_tokens / 16);
    tensor kv = rows(dtype::f32, context_tokens, kv_heads * head_dim);
    std::vector<std::uint32_t> slots(context_tokens);
    std::iota(slots.begin(), slots.end(), 0U);
    for (std::size_t layer = 0; layer < layers; ++layer)
      kv_write(ctx_, {&cache, layer, kv.view(), kv.view(), slots});
    std::vector<std::uint32_t> blocks(context_tokens / 16);
    std::iota(blocks.begin(), blocks.end(), 0U);
    const attention_sequence sequence{blocks};
    tensor query = rows(dtype::f32, 512, heads * head_dim);
    tensor out(dtype::f32, 512, heads * head_dim);

    struct variant {
      const char* name;
      std::size_t rows;
      std::size_t first;
    };

    for (const variant& v :
         {variant{"decode at 128", 1, 128}, variant{"decode at 2047", 1, 2047},
          variant{"prefill 0 to 512", 512, 0}, variant{"prefill 1536 to 2048", 512, 1536}}) {
      std::vector<attention_row> batch;
      double keys = 0.0;
      for (std::size_t r = 0; r < v.rows; ++r) {
        batch.push_back({0, static_cast<std::uint32_t>(v.first + r)});
        keys += static_cast<double>(v.first + r + 1);
      }
      report_.measure(
          std::string("attention ") + name_of(type) + " 16/4 x 64, " + v.name,
          static_cast<double>((v.first + v.rows) * config.groups[0].bytes_per_token()),
          keys * heads * head_dim * 2,
          [&](std::size_t i) {
            attention(ctx_, {.cache = &cache,
                             .layer = i % layers,
                             .query = query.first(v.rows),
                             .heads = heads,
                             .rows = batch,
                             .sequences = {&sequence, 1},
                             .scale = 0.125F,
                             .output = out.first(v.rows)});
          },
          type == dtype::f32 ? arithmetic::f32 : arithmetic::bf16);
    }
    report_.measure(
        std::string("kv_write ") + name_of(type) + " 512 rows",
        512.0 * static_cast<double>(config.groups[0].bytes_per_token()), 0.0, [&](std::size_t i) {
          kv_write(ctx_, {&cache, i % layers, kv.first(512), kv.first(512), std::span(slots).first(512)});
        });
  }

  // Multi-head latent attention, 16 heads: absorbed, one KV head of 576 numbers of which 512 are the value;
  // and expanded, keys of 192 and values of 128 for each head, here as 160 each.
  void latent_attentions() {
    constexpr std::size_t heads = 16;
    constexpr std::size_t context_tokens = 4096;

    struct form {
      const char* name;
      kv_layer_group group;
    };

    for (const form& f :
         {form{"absorbed", {32, 1, 576, dtype::bf16, 512}}, form{"expanded", {8, 16, 160, dtype::bf16}}}) {
      const std::string name = std::string("attention MLA ") + f.name + ", rows at 4095: ";
      if (!report_.wants_some_of(name))
        continue;
      const kv_layer_group& group = f.group;
      kv_cache cache({{group}, 16}, context_tokens / 16);
      tensor kv = rows(dtype::f32, context_tokens, group.kv_heads * group.head_dim);
      std::vector<std::uint32_t> slots(context_tokens);
      std::iota(slots.begin(), slots.end(), 0U);
      for (std::size_t layer = 0; layer < group.layers; ++layer)
        kv_write(ctx_,
                 {&cache, layer, kv.view(), group.is_latent() ? const_tensor_view{} : kv.view(), slots});
      std::vector<std::uint32_t> blocks(context_tokens / 16);
      std::iota(blocks.begin(), blocks.end(), 0U);
      const attention_sequence sequence{blocks};
      for (const std::size_t count : {1UL, 64UL}) { // the last positions
        tensor query = rows(dtype::f32, count, heads * group.head_dim);
        tensor out(dtype::f32, count, heads * group.value_width());
        std::vector<attention_row> batch;
        for (std::size_t r = 0; r < count; ++r)
          batch.push_back({0, static_cast<std::uint32_t>(context_tokens - count + r)});
        report_.measure(
            name + std::to_string(count), static_cast<double>(context_tokens * group.bytes_per_token()),
            static_cast<double>(count * context_tokens * heads * (group.head_dim + group.value_width())),
            [&](std::size_t i) {
              attention(ctx_, {.cache = &cache,
                               .layer = i % group.layers,
                               .query = query.view(),
                               .heads = heads,
                               .rows = batch,
                               .sequences = {&sequence, 1},
                               .scale = 0.07F,
                               .output = out.view()});
            },
            arithmetic::bf16);
      }
    }
  }

  // W_kb of 16 heads: 128 numbers of each query become 512.
  void head_product() {
    constexpr std::size_t heads = 16;
    constexpr std::size_t inputs = 128;
    constexpr std::size_t outputs = 512;
    constexpr std::size_t layers = 64; // 128 MiB
    const std::string name = "head_products bf16 16 x 128 -> 512, rows ";
    if (!report_.wants_some_of(name))
      return;
    std::vector<std::vector<packed_matrix>> weights_of(layers);
    const tensor plain = rows(dtype::bf16, outputs, inputs);
    for (auto& of_layer : weights_of)
      for (std::size_t h = 0; h < heads; ++h)
        of_layer.push_back(
            packed_matrix::pack(packed_format::bf16_pair, plain.view(), ctx_.instruction_set()));
    for (const std::size_t m : {1UL, 8UL, 512UL}) {
      tensor x = rows(dtype::bf16, m, heads * inputs);
      tensor y(dtype::bf16, m, heads * outputs);
      report_.measure(
          name + std::to_string(m), static_cast<double>(heads * weights_of[0][0].bytes().size()),
          static_cast<double>(m * heads * inputs * outputs),
          [&](std::size_t i) {
            head_products(ctx_, {.input = x.view(),
                                 .input_step = inputs,
                                 .weights = weights_of[i % layers],
                                 .output = y.view(),
                                 .output_step = outputs});
          },
          arithmetic::bf16);
    }
  }

  void small_ops() {
    tensor x = rows(dtype::f32, 512, 1024);
    tensor y(dtype::bf16, 512, 1024);
    const std::vector<float> weight(1024, 1.0F);
    for (const std::size_t m : {1UL, 512UL})
      report_.measure("rms_norm 1024, rows " + std::to_string(m), static_cast<double>(m) * 1024 * 4, 0.0,
                      [&](std::size_t) {
                        rms_norm(ctx_, {.input = x.first(m), .weight = weight.data(), .output = y.first(m)});
                      });
    tensor logits = rows(dtype::f32, 8, 32000);
    for (std::size_t r = 0; r < 8; ++r)
      for (std::size_t c = 0; c < 32000; ++c)
        logits.view().row_as<float>(r)[c] *= 300.0F;
    std::vector<sampled_token> out(8);
    const auto sampling = [&](const char* name, const sampling_params& params, std::size_t count) {
      std::vector<sampling_row> sampled(count);
      for (std::size_t i = 0; i < count; ++i)
        sampled[i] = {.logits_row = i, .params = params, .key = {1, 0, static_cast<std::uint32_t>(i), 0}};
      report_.measure(
          std::string("sample 32000, ") + name, static_cast<double>(count) * 32000 * 4, 0.0,
          [&, sampled](std::size_t) { sample(ctx_, logits.view(), sampled, std::span(out).first(count)); });
    };
    sampling("greedy, 1 row", {.temperature = 0.0F}, 1);
    sampling("temperature 1, 1 row", {}, 1);
    sampling("top-p 0.9, 8 rows", {.top_p = 0.9F}, 8);
    sampling("top-k 40, 8 rows", {.top_k = 40}, 8);
    report_.measure("fork and join", 0.0, 0.0, [&](std::size_t) {
      ctx_.pool().parallel_static(ctx_.pool().threads(), [](unsigned, std::size_t, std::size_t) {});
    });
  }

 private:
  // The same weights at another address.
  struct matrix_copy {
    buffer bytes;
    packed_matrix matrix;

    explicit matrix_copy(const packed_matrix& from) : bytes(from.bytes().size()) {
      std::ranges::copy(from.bytes(), bytes.data());
      matrix = packed_matrix::view(from.shape(), bytes.bytes());
      matrix.set_rows(from.rows());
    }
  };

  // Weights of moderate size: denormals and infinities would change the speed.
  packed_matrix weights(const weight_kind& kind, std::size_t n, std::size_t k, bool gate_up = false) {
    const tensor plain = rows(kind.row_type, n, k);
    const bool coded = kind.format == packed_format::bf16_coded;
    const packed_format format = coded ? packed_format::bf16_pair : kind.format;
    auto result =
        gate_up ? packed_matrix::pack_gate_up(format, plain.view(), plain.view(), ctx_.instruction_set())
                : packed_matrix::pack(format, plain.view(), ctx_.instruction_set());
    result.set_rows(kind.rows);
    return coded ? packed_matrix::code(result).value() : std::move(result);
  }

  // Normally distributed, like the output of a norm: for uniform values AVX2's int8 products cut off many
  // more (gemm/int8/narrow_rows_avx2.hpp).
  void fill(tensor_view rows, std::size_t r) {
    for (std::size_t c = 0; c < rows.cols; ++c) {
      const float value = normal_(random_);
      if (rows.type == dtype::f32)
        rows.row_as<float>(r)[c] = value;
      else
        rows.row_as<bfloat16>(r)[c] = to_bfloat16(value);
    }
  }

  tensor rows(dtype type, std::size_t count, std::size_t columns) {
    tensor t(type, count, columns);
    for (std::size_t r = 0; r < count; ++r)
      fill(t.view(), r);
    return t;
  }

  context& ctx_;
  kernel_report& report_;
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_{0.0F, 0.02F};
};

} // namespace

void measure_kernels(context& ctx, kernel_report& report) {
  kernel_cases cases(ctx, report);
  for (const weight_kind& kind : weight_kinds) {
    cases.products(kind);
    cases.experts(kind);
  }
  for (const dtype type : {dtype::bf16, dtype::int8, dtype::f32})
    cases.attentions(type);
  cases.latent_attentions();
  cases.head_product();
  cases.small_ops();
}

} // namespace troupe::bench
