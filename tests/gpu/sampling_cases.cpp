#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/cuda/logit_sums.hpp"
#include "kernels/cuda/pick_logits.hpp"
#include "kernels/cuda/rank_logits.hpp"
#include "kernels/cuda/share_sums.hpp"
#include "kernels/cuda/top_logits.hpp"
#include "kernels/known_logits.hpp"
#include "tests/gpu/cases.hpp"

namespace troupe::gpu_check {

namespace {

using namespace kernels;

// Content of a device_array before an op.
constexpr std::uint32_t poison = 0xffffffffU;

struct logits_case {
  std::size_t rows;
  std::size_t vocab;
  std::vector<float> values;
  device_array<float> on_device;

  logits_case(session& s, std::size_t num_rows, std::size_t vocab_size)
      : rows(num_rows), vocab(vocab_size), values(s.normal(num_rows * vocab_size, 4.0F)) {
    for (std::size_t i = 5; i < values.size(); i += 7) // equals
      values[i] = values[i - 4];
    on_device = device_array<float>(s.on(), values);
  }

  const float* row(std::size_t r) const { return values.data() + r * vocab; }

  std::string text() const { return std::to_string(rows) + " x " + std::to_string(vocab); }
};

// Sums are those of the CPU to the last bit.
void check_sums(session& s, const logits_case& c) {
  const device_array<float> best(s.on(), c.rows);
  const device_array<double> sums(s.on(), c.rows);
  cuda::logit_sums(s.on(), {.logits = c.on_device.data(),
                            .rows = c.rows,
                            .vocab = c.vocab,
                            .best = best.data(),
                            .sums = sums.data()});
  std::vector<float> want_best;
  std::vector<double> want;
  for (std::size_t r = 0; r < c.rows; ++r) {
    want_best.push_back(s.cpu().table().max_row(c.row(r), c.vocab));
    want.push_back(s.cpu().table().exp_sum(c.row(r), want_best.back(), 1.0F, c.vocab, nullptr));
  }
  s.compare_exact("best, " + c.text(), best.download(s.on()), want_best);
  s.compare_exact("sums, " + c.text(), sums.download(s.on()), want);
}

// Outputs have poisoned rows before and after them, which must stay unchanged.
void check_top(session& s, const logits_case& c, std::size_t wanted, std::size_t room) {
  const device_array<token_logit> entries(s.on(), (c.rows + 2) * room);
  const device_array<std::uint32_t> counts(s.on(), c.rows + 2);
  cuda::top_logits(s.on(), {.logits = c.on_device.data(),
                            .rows = c.rows,
                            .vocab = c.vocab,
                            .wanted = wanted,
                            .room = room,
                            .entries = entries.data() + room,
                            .counts = counts.data() + 1});
  const auto all = entries.download(s.on());
  const auto all_counts = counts.download(s.on());
  const std::string what = std::to_string(wanted) + " best, " + c.text();
  const auto is_poisoned = [&](std::size_t entry) {
    return all[entry].token == poison && std::bit_cast<std::uint32_t>(all[entry].logit) == poison;
  };
  std::size_t written = (all_counts.front() == poison ? 0U : 1U) + (all_counts.back() == poison ? 0U : 1U);
  for (std::size_t i = 0; i < room; ++i)
    written += (is_poisoned(i) ? 0U : 1U) + (is_poisoned((c.rows + 1) * room + i) ? 0U : 1U);
  s.note(what + ", around the outputs", written == 0, std::to_string(written) + " places were written");
  const std::span got = std::span(all).subspan(room, c.rows * room);
  const std::span got_counts = std::span(all_counts).subspan(1, c.rows);
  for (std::size_t r = 0; r < c.rows; ++r) {
    if (std::any_of(c.row(r), c.row(r) + c.vocab, [](float logit) { return std::isnan(logit); })) {
      s.note(what + ", row " + std::to_string(r) + " with NaN", got_counts[r] == 0,
             std::to_string(got_counts[r]) + " entries instead of none");
      continue;
    }
    std::vector<token_logit> want;
    for (std::uint32_t token = 0; token < c.vocab; ++token)
      want.push_back({token, c.row(r)[token]});
    std::sort(want.begin(), want.end(), is_better);
    std::size_t end = wanted;
    while (end < c.vocab && want[end].logit == want[wanted - 1].logit)
      ++end;
    if (end > room)
      for (end = wanted - 1; end > 0 && want[end - 1].logit == want[wanted - 1].logit;)
        --end;
    want.resize(end);
    std::vector<token_logit> mine(
        got.begin() + static_cast<std::ptrdiff_t>(r * room),
        got.begin() + static_cast<std::ptrdiff_t>(r * room + std::min<std::size_t>(got_counts[r], room)));
    std::sort(mine.begin(), mine.end(), is_better);
    const auto tokens = [](const std::vector<token_logit>& from) {
      std::vector<std::uint32_t> result;
      for (const auto& entry : from) {
        result.push_back(entry.token);
        result.push_back(std::bit_cast<std::uint32_t>(entry.logit));
      }
      return result;
    };
    s.compare_exact(what + ", row " + std::to_string(r), tokens(mine), tokens(want));
  }
}

void check_shares(session& s, const logits_case& c) {
  std::vector<cuda::share_draw> draws;
  std::vector<float> best;
  for (std::uint32_t r = 0; r < c.rows; ++r) {
    best.push_back(s.cpu().table().max_row(c.row(r), c.vocab));
    draws.push_back({.row = r, .factor = 1.0F, .least = 1e-30F, .uniform = 0.0});
    draws.push_back({.row = r, .factor = 1.0F / 0.7F, .least = 0.01F, .uniform = 0.6});
    draws.push_back({.row = r, .factor = 0.2F, .least = 1e-30F, .uniform = 0.999999});
  }
  const std::size_t blocks = share_blocks(c.vocab);
  const device_array<float> device_best(s.on(), best);
  const device_array<cuda::share_draw> device_draws(s.on(), draws);
  const device_array<double> sums(s.on(), draws.size() * blocks);
  const device_array<std::uint32_t> drawn_blocks(s.on(), draws.size());
  const device_array<float> drawn(s.on(), draws.size() * share_block);
  cuda::share_sums(s.on(), {.logits = c.on_device.data(),
                            .rows = c.rows,
                            .vocab = c.vocab,
                            .best = device_best.data(),
                            .draws = device_draws.data(),
                            .num_draws = draws.size(),
                            .sums = sums.data(),
                            .drawn_blocks = drawn_blocks.data(),
                            .drawn = drawn.data()});
  const auto got = sums.download(s.on());
  const auto got_blocks = drawn_blocks.download(s.on());
  const auto got_drawn = drawn.download(s.on());
  std::size_t far_off = 0;
  std::size_t wrong_block = 0;
  std::size_t wrong_logits = 0;
  std::vector<float> shares(c.vocab);
  for (std::size_t d = 0; d < draws.size(); ++d) {
    const auto& draw = draws[d];
    s.cpu().table().exp_sum(c.row(draw.row), best[draw.row], draw.factor, c.vocab, shares.data());
    std::vector<double> want(blocks);
    for (std::size_t i = 0; i < c.vocab; ++i)
      want[i / share_block] += shares[i] >= draw.least ? static_cast<double>(shares[i]) : 0.0;
    const double total = std::accumulate(want.begin(), want.end(), 0.0);
    for (std::size_t b = 0; b < blocks; ++b)
      far_off +=
          std::abs(got[d * blocks + b] - want[b]) <= total * static_cast<double>(c.vocab) * 0x1p-51 ? 0 : 1;
    std::size_t block = 0;
    for (double so_far = want[0]; so_far <= draw.uniform * total && block + 1 < blocks;)
      so_far += want[++block];
    wrong_block += got_blocks[d] == block ? 0 : 1;
    for (std::size_t i = 0; i < share_block && block * share_block + i < c.vocab; ++i)
      wrong_logits += got_drawn[d * share_block + i] == c.row(draw.row)[block * share_block + i] ? 0 : 1;
  }
  s.note("share sums, " + c.text(), far_off == 0,
         std::to_string(far_off) + " sums are off by more than rounding");
  s.note("drawn blocks, " + c.text(), wrong_block == 0, std::to_string(wrong_block) + " are others");
  s.note("drawn logits, " + c.text(), wrong_logits == 0, std::to_string(wrong_logits) + " are others");
}

void check_single(session& s, const logits_case& c) {
  std::vector<cuda::logit_place> places;
  std::vector<cuda::logit_in_row> wanted;
  std::vector<float> want;
  std::vector<std::uint32_t> want_ranks;
  for (int i = 0; i < 200; ++i) {
    const auto row = s.below(static_cast<std::uint32_t>(c.rows));
    const auto token = s.below(static_cast<std::uint32_t>(c.vocab));
    places.push_back({row, token});
    want.push_back(c.row(row)[token]);
    if (i % 20 != 0)
      continue;
    wanted.push_back({row, want.back()});
    want_ranks.push_back(static_cast<std::uint32_t>(
        std::count_if(c.row(row), c.row(row) + c.vocab, [&](float logit) { return logit >= want.back(); })));
  }
  const device_array<cuda::logit_place> device_places(s.on(), places);
  const device_array<cuda::logit_in_row> device_wanted(s.on(), wanted);
  const device_array<float> picked(s.on(), places.size());
  const device_array<std::uint32_t> ranks(s.on(), wanted.size());
  cuda::pick_logits(s.on(), {.logits = c.on_device.data(),
                             .rows = c.rows,
                             .vocab = c.vocab,
                             .places = device_places.data(),
                             .count = places.size(),
                             .output = picked.data()});
  cuda::rank_logits(s.on(), {.logits = c.on_device.data(),
                             .rows = c.rows,
                             .vocab = c.vocab,
                             .wanted = device_wanted.data(),
                             .count = wanted.size(),
                             .ranks = ranks.data()});
  s.compare_exact("picked, " + c.text(), picked.download(s.on()), want);
  s.compare_exact("ranks, " + c.text(), ranks.download(s.on()), want_ranks);
}

void time_sampling(session& s) {
  const std::size_t rows = s.options().small ? 2 : 64;
  const std::size_t vocab = s.options().small ? 500 : 151936;
  const std::size_t wanted = std::min<std::size_t>(512, vocab);
  const std::size_t room = std::min(2 * wanted, vocab);
  const logits_case c(s, rows, vocab);
  // More logits than the L2 cache holds, used in turn.
  const std::size_t sets = s.sets_of(rows * vocab * sizeof(float));
  const device_array<float> all(s.on(), sets * rows * vocab);
  for (std::size_t i = 0; i < sets; ++i)
    s.on().copy_on_device(all.data() + i * rows * vocab, c.on_device.data(), rows * vocab * sizeof(float));
  const auto logits = [&](std::size_t set) { return all.data() + set * rows * vocab; };
  const device_array<float> best(s.on(), rows);
  const device_array<double> sums(s.on(), rows);
  const device_array<token_logit> entries(s.on(), rows * room);
  const device_array<std::uint32_t> counts(s.on(), rows);
  const work_floor once{.bytes = static_cast<double>(rows * vocab * sizeof(float)), .flops = 0.0};
  s.time("logit_sums, " + c.text(), once, sets, [&](std::size_t set) {
    cuda::logit_sums(
        s.on(),
        {.logits = logits(set), .rows = rows, .vocab = vocab, .best = best.data(), .sums = sums.data()});
  });
  s.time("top_logits, " + c.text(), once, sets, [&](std::size_t set) {
    cuda::top_logits(s.on(), {.logits = logits(set),
                              .rows = rows,
                              .vocab = vocab,
                              .wanted = wanted,
                              .room = room,
                              .entries = entries.data(),
                              .counts = counts.data()});
  });
  std::vector<cuda::share_draw> draws;
  for (std::uint32_t r = 0; r < rows; ++r)
    draws.push_back({.row = r, .factor = 1.0F, .least = 1e-30F, .uniform = 0.5});
  const device_array<cuda::share_draw> device_draws(s.on(), draws);
  const device_array<double> share_sums(s.on(), rows * share_blocks(vocab));
  const device_array<std::uint32_t> drawn_blocks(s.on(), rows);
  const device_array<float> drawn(s.on(), rows * share_block);
  s.time("share_sums, " + c.text(), once, sets, [&](std::size_t set) {
    cuda::share_sums(s.on(), {.logits = logits(set),
                              .rows = rows,
                              .vocab = vocab,
                              .best = best.data(),
                              .draws = device_draws.data(),
                              .num_draws = rows,
                              .sums = share_sums.data(),
                              .drawn_blocks = drawn_blocks.data(),
                              .drawn = drawn.data()});
  });
}

} // namespace

void check_sampling(session& s) {
  if (!s.begin("sampling"))
    return;
  std::vector<std::pair<std::size_t, std::size_t>> shapes = {{1, 1}, {3, 261}, {2, 1500}};
  if (!s.options().small)
    shapes.insert(shapes.end(), {{64, 32000}, {3, 151936}});
  for (const auto& [rows, vocab] : shapes) {
    const logits_case c(s, rows, vocab);
    check_sums(s, c);
    check_shares(s, c);
    check_single(s, c);
    check_top(s, c, 1, std::min<std::size_t>(2, vocab));
    check_top(s, c, std::min<std::size_t>(50, vocab), std::min<std::size_t>(100, vocab));
    check_top(s, c, vocab, vocab);
  }
  // More equals than fit: none of them, or only those above.
  logits_case equals(s, 2, 300);
  std::fill(equals.values.begin(), equals.values.end(), 0.5F);
  equals.values[300 + 7] = 1.0F;
  equals.on_device = device_array<float>(s.on(), equals.values);
  check_top(s, equals, 10, 20);
  // NaN, all of a row and a few, of either sign, beside a row that has none.
  logits_case sick(s, 5, 300);
  const auto nan = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const auto row = [&](std::size_t r) { return sick.values.begin() + static_cast<std::ptrdiff_t>(r * 300); };
  std::fill_n(row(0), 300, nan(0x7fffffffU));
  row(1)[0] = row(1)[150] = row(1)[299] = nan(0x7fffffffU);
  std::fill_n(row(2), 300, nan(0xffffffffU));
  row(3)[17] = nan(0xff800001U);
  sick.on_device = device_array<float>(s.on(), sick.values);
  for (const auto& [wanted, room] : {std::pair{1U, 2U}, std::pair{10U, 20U}, std::pair{300U, 300U}})
    check_top(s, sick, wanted, room);
  if (s.options().times)
    time_sampling(s);
}

} // namespace troupe::gpu_check
