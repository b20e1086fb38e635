#include "kernels/model/cuda/cuda_sampler.hpp"

#include "kernels/cuda/logit_sums.hpp"
#include "kernels/cuda/top_logits.hpp"
#include "kernels/logit_changes.hpp"
#include "kernels/token_choice.hpp"

#include <algorithm>

namespace troupe::model {

namespace {

namespace cuda = kernels::cuda;
using kernels::share_block;
using kernels::share_blocks;
using kernels::token_logit;

// Most of a row's best tokens to request: beyond it, copying the row costs no more.
constexpr std::size_t most_top = 4096;

// Starts copying values to the device.
// @returns their address there
template <class T>
const T* upload(const cuda::stream& on, const std::vector<T>& values, growing_pinned& host,
                growing_device& device) {
  auto* from = host.reserve<T>(values.size());
  std::copy(values.begin(), values.end(), from);
  auto* to = device.reserve<T>(values.size());
  on.copy_to_device(to, from, values.size() * sizeof(T));
  return to;
}

// Starts copying results in `device` to `host`.
template <class T>
void download(const cuda::stream& on, const growing_device& device, std::size_t count, growing_pinned& host) {
  on.copy_to_host(host.reserve<T>(count), device.as<T>(), count * sizeof(T));
}

} // namespace

cuda_sampler::cuda_sampler(kernels::context& ctx, std::size_t least_top)
    : ctx_(ctx), least_top_(least_top), scratch_(ctx.threads()) {}

void cuda_sampler::sample(const cuda::stream& on, const float* logits, std::size_t vocab,
                          const token_requests& wanted) {
  const auto rows = wanted.rows.size();
  plan(vocab, wanted);
  if (jobs_.empty())
    return;
  ask_device(on, logits, rows, vocab);
  sort_tops(rows);
  decide(vocab, wanted);
  rank(on, logits, rows, vocab);
  for (std::size_t i = 0; i < jobs_.size(); ++i)
    if (const auto drawn = wanted.drawn.size(); i < drawn)
      wanted.drawn_tokens[i] = jobs_[i].choice.token;
    else
      wanted.known_tokens[i - drawn] = jobs_[i].choice.token;
  sample_whole_rows(on, logits, vocab, wanted);
}

/// Determines the requests to the device for each row.
void cuda_sampler::plan(std::size_t vocab, const token_requests& wanted) {
  jobs_.clear();
  places_.clear();
  draws_.clear();
  top_ = least_top_;
  for (const auto& row : wanted.drawn) {
    auto& added = jobs_.emplace_back(job{.row = row.logits_row, .tokens = {}});
    if (kernels::changes_logits(row))
      added.tokens = kernels::changed_tokens(row, vocab);
    if (kernels::draws_from_all(row, vocab)) {
      added.draw = draws_.size();
      draws_.push_back({.row = static_cast<std::uint32_t>(row.logits_row),
                        .factor = 1.0F / row.params.temperature,
                        .least = kernels::least_share(row.params.min_p),
                        .uniform = kernels::uniform_at(row.key)});
    }
    // Changes may remove any of the best tokens.
    if (!kernels::is_greedy(row.params.temperature) && kernels::has_top_k(row.params.top_k, vocab))
      top_ = std::max(top_, row.params.top_k + added.tokens.size());
    top_ = std::max<std::size_t>(top_, row.num_logprobs);
  }
  for (const auto& row : wanted.known) {
    jobs_.push_back({.row = row.logits_row, .tokens = {row.token}});
    top_ = std::max<std::size_t>(top_, row.num_logprobs);
  }
  top_ = std::min({top_, most_top, vocab});
  room_ = std::min(2 * top_, vocab);
  for (auto& of : jobs_) {
    of.first_pick = places_.size();
    for (const auto token : of.tokens)
      places_.push_back({static_cast<std::uint32_t>(of.row), token});
  }
}

void cuda_sampler::ask_device(const cuda::stream& on, const float* logits, std::size_t rows,
                              std::size_t vocab) {
  auto* best = device_best_.reserve<float>(rows);
  cuda::logit_sums(on, {.logits = logits,
                        .rows = rows,
                        .vocab = vocab,
                        .best = best,
                        .sums = device_sums_.reserve<double>(rows)});
  cuda::top_logits(on, {.logits = logits,
                        .rows = rows,
                        .vocab = vocab,
                        .wanted = top_,
                        .room = room_,
                        .entries = device_entries_.reserve<token_logit>(rows * room_),
                        .counts = device_counts_.reserve<std::uint32_t>(rows)});
  download<float>(on, device_best_, rows, best_);
  download<double>(on, device_sums_, rows, sums_);
  download<token_logit>(on, device_entries_, rows * room_, entries_);
  download<std::uint32_t>(on, device_counts_, rows, counts_);
  if (!places_.empty()) {
    cuda::pick_logits(on, {.logits = logits,
                           .rows = rows,
                           .vocab = vocab,
                           .places = upload(on, places_, host_places_, device_places_),
                           .count = places_.size(),
                           .output = device_picked_.reserve<float>(places_.size())});
    download<float>(on, device_picked_, places_.size(), picked_);
  }
  if (!draws_.empty()) {
    const auto count = draws_.size();
    const auto blocks = share_blocks(vocab);
    cuda::share_sums(on, {.logits = logits,
                          .rows = rows,
                          .vocab = vocab,
                          .best = best,
                          .draws = upload(on, draws_, host_draws_, device_draws_),
                          .num_draws = count,
                          .sums = device_share_sums_.reserve<double>(count * blocks),
                          .drawn_blocks = device_drawn_blocks_.reserve<std::uint32_t>(count),
                          .drawn = device_drawn_.reserve<float>(count * share_block)});
    download<double>(on, device_share_sums_, count * blocks, share_sums_);
    download<std::uint32_t>(on, device_drawn_blocks_, count, drawn_blocks_);
    download<float>(on, device_drawn_, count * share_block, drawn_);
  }
  on.synchronize();
}

void cuda_sampler::sort_tops(std::size_t rows) {
  ctx_.pool().parallel_dynamic(rows, 1, [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      auto* first = entries_.as<token_logit>() + row * room_;
      std::sort(first, first + counts_.as<std::uint32_t>()[row], kernels::is_better);
    }
  });
}

kernels::known_logits cuda_sampler::known_of(const job& of, std::size_t vocab) const {
  kernels::known_logits known{
      .vocab = vocab,
      .best = best_.as<float>()[of.row],
      .exp_sum = sums_.as<double>()[of.row],
      .top = {entries_.as<token_logit>() + of.row * room_, counts_.as<std::uint32_t>()[of.row]},
      .changed = {picked_.as<float>() + of.first_pick, of.tokens.size()}};
  if (of.draw != no_draw) {
    const auto blocks = share_blocks(vocab);
    known.share_sums = {share_sums_.as<double>() + of.draw * blocks, blocks};
    known.drawn_block = drawn_blocks_.as<std::uint32_t>()[of.draw];
    known.drawn = {drawn_.as<float>() + of.draw * share_block,
                   std::min(share_block, vocab - known.drawn_block * share_block)};
  }
  return known;
}

void cuda_sampler::decide(std::size_t vocab, const token_requests& wanted) {
  ctx_.pool().parallel_dynamic(jobs_.size(), 1, [&](unsigned thread, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      auto& of = jobs_[i];
      const auto known = known_of(of, vocab);
      const auto drawn = wanted.drawn.size();
      const auto choice =
          i < drawn ? kernels::sample_known(ctx_, known, wanted.drawn[i], of.tokens, scratch_[thread])
                    : kernels::known_logprob(known, wanted.known[i - drawn], known.changed.front());
      of.is_decided = choice.has_value();
      of.choice = choice.value_or(kernels::known_choice{});
    }
  });
}

/// Requests the ranks that the best tokens do not determine.
void cuda_sampler::rank(const cuda::stream& on, const float* logits, std::size_t rows, std::size_t vocab) {
  std::vector<cuda::logit_in_row> ranked;
  for (const auto& of : jobs_)
    if (of.is_decided && !of.choice.has_rank)
      ranked.push_back({static_cast<std::uint32_t>(of.row), of.choice.logit});
  if (ranked.empty())
    return;
  cuda::rank_logits(on, {.logits = logits,
                         .rows = rows,
                         .vocab = vocab,
                         .wanted = upload(on, ranked, host_ranked_, device_ranked_),
                         .count = ranked.size(),
                         .ranks = device_ranks_.reserve<std::uint32_t>(ranked.size())});
  download<std::uint32_t>(on, device_ranks_, ranked.size(), ranks_);
  on.synchronize();
  for (const auto* next = ranks_.as<std::uint32_t>(); auto& of : jobs_)
    if (of.is_decided && !of.choice.has_rank)
      of.choice.token.rank = *next++;
}

/// Calls `choose` with whole rows for the undecided jobs among some.
/// @param rows    [jobs.size()]: the requests
/// @param tokens  [jobs.size()]: receives the answers
/// @param places  row of the logits → row of the copied logits
template <class Row, class Choose>
void cuda_sampler::choose_undecided(std::span<const job> jobs, std::span<const Row> rows,
                                    std::span<kernels::sampled_token> tokens,
                                    const std::map<std::size_t, std::size_t>& places, const Choose& choose) {
  std::vector<Row> asked;
  std::vector<std::size_t> of; // indices of the jobs
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (!jobs[i].is_decided) {
      asked.push_back(rows[i]);
      asked.back().logits_row = places.at(rows[i].logits_row);
      of.push_back(i);
    }
  if (asked.empty())
    return;
  std::vector<kernels::sampled_token> answers(asked.size());
  choose(std::span<const Row>(asked), std::span(answers));
  for (std::size_t i = 0; i < of.size(); ++i)
    tokens[of[i]] = answers[i];
}

void cuda_sampler::sample_whole_rows(const cuda::stream& on, const float* logits, std::size_t vocab,
                                     const token_requests& wanted) {
  std::map<std::size_t, std::size_t> places; // row of the logits → index of its copy
  for (const auto& of : jobs_)
    if (!of.is_decided)
      places.try_emplace(of.row, places.size());
  if (places.empty())
    return;
  num_whole_rows_ += places.size();
  auto* copied = whole_rows_.reserve<float>(places.size() * vocab);
  for (const auto& [row, place] : places)
    on.copy_to_host(copied + place * vocab, logits + row * vocab, vocab * sizeof(float));
  on.synchronize();

  // One call for all rows, so that they share the CPU's threads.
  const auto view = kernels::view_of(copied, places.size(), vocab);
  const std::span<const job> jobs = jobs_;
  const auto drawn = wanted.drawn.size();
  choose_undecided(jobs.first(drawn), wanted.drawn, wanted.drawn_tokens, places,
                   [&](std::span<const kernels::sampling_row> rows, std::span<kernels::sampled_token> out) {
                     kernels::sample(ctx_, view, rows, out);
                   });
  choose_undecided(jobs.subspan(drawn), wanted.known, wanted.known_tokens, places,
                   [&](std::span<const kernels::logprob_row> rows, std::span<kernels::sampled_token> out) {
                     kernels::token_logprobs(ctx_, view, rows, out);
                   });
}

} // namespace troupe::model
