// Quantized experts against BF16 ones where the paper "Who Says Elephants Can't Run" measures them (table 1):
// 40 tokens over 1 to 32 active experts of 1024 × 4096. Formats alternate within a round, and every call
// takes the next experts of 32, so that their weights come from memory. Prints a Markdown table.
//
//   quant_bench [--threads N] [--isa NAME] [--rounds N] [--clock wall|cpu]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/expert_ffn.hpp"
#include "kernels/self_test.hpp"
#include "services/options/option_parser.hpp"

namespace {

using namespace troupe::kernels;

constexpr std::size_t hidden = 1024;
constexpr std::size_t ffn = 4096;
constexpr std::size_t num_experts = 32;
constexpr std::size_t tokens = 40;

struct candidate {
  const char* name;
  packed_format format;
  row_quant rows;
};

const candidate candidates[] = {
    {"BF16", packed_format::bf16_pair, row_quant::none},
    {"int8", packed_format::int8_channel, row_quant::none},
    {"int4, groups of 32", packed_format::int4_group32, row_quant::none},
    {"int4, per channel", packed_format::int4_channel, row_quant::none},
    {"int8, rows int8", packed_format::int8_channel, row_quant::int8},
    {"int4, groups of 32, rows int8", packed_format::int4_group32, row_quant::int8},
};
constexpr std::size_t num_candidates = std::size(candidates);

// --clock cpu --threads 1 measures the thread's processor time, which other processes on the same cores
// disturb less.
bool cpu_clock = false;

double now_microseconds() {
  timespec t{};
  ::clock_gettime(cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

using expert_set = std::vector<expert_weights>;

// One random expert per format, copied: only the bytes read matter.
expert_set make_experts(const candidate& c, const std::vector<float>& up, const std::vector<float>& down) {
  const auto first = packed_matrix::pack(c.format, view_of(up.data(), ffn, hidden));
  const auto second = packed_matrix::pack(c.format, view_of(down.data(), hidden, ffn));
  static std::vector<buffer> memory;
  expert_set experts(num_experts);
  for (auto& expert : experts) {
    const auto copy = [&](const packed_matrix& from) {
      auto& bytes = memory.emplace_back(from.bytes().size());
      std::copy(from.bytes().begin(), from.bytes().end(), bytes.data());
      auto result = packed_matrix::view(from.shape(), bytes.bytes());
      result.set_rows(c.rows);
      return result;
    };
    expert.gate_up = copy(first);
    expert.down = copy(second);
  }
  return experts;
}

double microseconds(context& ctx, const expert_set& experts, std::size_t first, std::size_t active,
                    const std::vector<bfloat16>& in, std::vector<bfloat16>& out) {
  std::vector<const std::byte*> inputs(tokens);
  std::vector<std::byte*> outputs(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    inputs[t] = reinterpret_cast<const std::byte*>(in.data() + t * hidden);
    outputs[t] = reinterpret_cast<std::byte*>(out.data() + t * hidden);
  }
  std::vector<expert_segment> segments;
  std::size_t token = 0;
  for (std::size_t e = 0; e < active; ++e) {
    const std::size_t rows = (tokens - token + active - e - 1) / (active - e);
    segments.push_back({&experts[(first + e) % num_experts], std::span(inputs).subspan(token, rows),
                        std::span(outputs).subspan(token, rows)});
    token += rows;
  }
  const double begin = now_microseconds();
  expert_ffn(ctx, {.segments = segments});
  return now_microseconds() - begin;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

int run(const std::vector<std::string>& arguments) {
  std::uint32_t threads = 0;
  std::uint32_t rounds = 15;
  std::string isa_name = "auto";
  std::string clock = "wall";
  troupe::option_parser parser("quant_bench", "Times quantized experts against BF16 ones.");
  parser.number("threads", "compute threads; 0: one per processor", &threads, 0, 1024);
  parser.number("rounds", "calls of every kind; medians of their ratios are printed", &rounds, 1, 10000);
  parser.text("isa", "NAME", "instruction set; auto: the best", &isa_name);
  parser.choice("clock", {"wall", "cpu"}, "cpu: processor time of one thread, for --threads 1", &clock);
  if (parser.parse(arguments) == troupe::option_parser::outcome::help)
    return 0;
  cpu_clock = clock == "cpu";
  if (cpu_clock && threads != 1)
    throw troupe::option_error("--clock cpu: needs --threads 1");
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> up(ffn * hidden);
  std::vector<float> down(ffn * hidden);
  for (auto* values : {&up, &down})
    for (float& value : *values)
      value = normal(random);
  std::vector<bfloat16> in(tokens * hidden);
  for (auto& value : in)
    value = to_bfloat16(normal(random) * 50.0F);
  std::vector<bfloat16> out(tokens * hidden);

  thread_pool pool({.threads = threads});
  context ctx(pool, select_isa(isa_name == "auto" ? std::nullopt : isa_from_name(isa_name)).chosen);
  std::vector<expert_set> experts;
  for (const auto& c : candidates)
    experts.push_back(make_experts(c, up, down));
  std::printf("%s, %u threads, %u rounds; medians of BF16's time over a format's, and of GB/s of weights\n\n",
              name_of(ctx.instruction_set()), pool.threads(), rounds);
  std::printf("| active experts | BF16 ms |");
  for (std::size_t c = 1; c < num_candidates; ++c)
    std::printf(" %s |", candidates[c].name);
  std::printf("\n|---|---|");
  for (std::size_t c = 1; c < num_candidates; ++c)
    std::printf("---|");
  std::vector<double> log_sums(num_candidates, 0.0);
  std::size_t cells = 0;
  for (const std::size_t active : {1UL, 4UL, 8UL, 16UL, 24UL, 32UL}) {
    std::vector<std::vector<double>> times(num_candidates);
    std::vector<std::vector<double>> ratios(num_candidates);
    for (std::uint32_t round = 0; round <= rounds; ++round)
      for (std::size_t c = 0; c < num_candidates; ++c) {
        const double time = microseconds(ctx, experts[c], round * active, active, in, out);
        if (round == 0)
          continue; // grows scratch
        times[c].push_back(time);
        ratios[c].push_back(times[0].back() / time);
      }
    std::printf("\n| %zu | %.2f |", active, median(times[0]) * 1e-3);
    for (std::size_t c = 1; c < num_candidates; ++c) {
      const double ratio = median(ratios[c]);
      log_sums[c] += std::log(ratio);
      const auto bytes = experts[c][0].gate_up.bytes().size() + experts[c][0].down.bytes().size();
      std::printf(" %.2f (%.1f GB/s) |", ratio,
                  static_cast<double>(bytes * active) / median(times[c]) * 1e-3);
    }
    std::fflush(stdout);
    ++cells;
  }
  std::printf("\n| geometric mean | |");
  for (std::size_t c = 1; c < num_candidates; ++c)
    std::printf(" %.2f |", std::exp(log_sums[c] / static_cast<double>(cells)));
  std::printf("\n");
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quant_bench: %s\n", error.what());
    return 1;
  }
}
