// Random sampling requests of all kinds.
#pragma once

#include "kernels/sampling.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <random>
#include <span>
#include <vector>

namespace troupe::test {

/// Copies of rows, each with its own space for top logprobs: a sampler that writes nothing there must not
/// pass with another one's result. Row: sampling_row or logprob_row.
template <class Row>
class rows_with_own_tops {
 public:
  /// The initial content of that space.
  static constexpr kernels::token_logprob unwritten{0xfffffffeU, 12345.678F};

  explicit rows_with_own_tops(std::span<const Row> of) : rows_(of.begin(), of.end()) {
    for (auto& row : rows_)
      row.top = tops_.emplace_back(std::max<std::size_t>(row.num_logprobs, row.top.size()), unwritten);
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::deque<std::vector<kernels::token_logprob>> tops_;
  std::vector<Row> rows_;
};

/// Owns the memory that the rows borrow.
class sampling_requests {
 public:
  /// @param rows  of the logits: request i samples row i mod `rows`
  sampling_requests(std::size_t count, std::size_t rows, std::size_t vocab, unsigned seed) : random_(seed) {
    for (std::size_t i = 0; i < count; ++i)
      add(i, i % rows, vocab);
  }

  /// Each with its own space for top logprobs.
  const std::vector<kernels::sampling_row>& rows() const { return rows_; }

 private:
  struct owned {
    std::vector<kernels::token_bias> bias;
    std::vector<kernels::token_count> counts;
    std::vector<std::uint32_t> forbidden;
    std::vector<std::uint32_t> allowed;
    std::vector<kernels::token_logprob> top;
  };

  std::uint32_t below(std::size_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  bool one_of(std::size_t count) { return below(count) == 0; }

  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[below(of.size())];
  }

  void add(std::size_t number, std::size_t logits_row, std::size_t vocab) {
    auto& o = owned_.emplace_back();
    kernels::sampling_row row{.logits_row = logits_row, .key = {random_(), below(3), below(1000), 0}};
    auto& p = row.params;
    p.temperature = pick({0.0F, 0.3F, 1.0F, 1.0F, 1.7F, 5.0F});
    p.top_k = pick<std::uint32_t>({0, 0, 0, 1, 3, 20, 5000000});
    p.top_p = pick({1.0F, 1.0F, 0.1F, 0.5F, 0.9F, 0.99F});
    p.min_p = pick({0.0F, 0.0F, 0.0F, 0.02F, 0.3F, 1.0F});
    if (number % 2 == 1) { // every other one as the model says
      if (one_of(2)) {
        p.repetition_penalty = pick({1.0F, 1.3F, 0.8F});
        p.presence_penalty = pick({0.0F, 0.5F});
        p.frequency_penalty = pick({0.0F, 0.2F, -0.4F});
        for (std::uint32_t token = below(9); token < vocab; token += 1 + below(40))
          o.counts.push_back({token, below(4)});
      }
      if (one_of(3))
        for (int i = 0; i < 4; ++i)
          o.bias.push_back({below(vocab + 3), pick({2.5F, -1.0F, 40.0F, -100.0F})});
      if (one_of(3))
        o.forbidden = {below(vocab), below(vocab), below(vocab + 3)};
      if (one_of(4))
        for (int i = 0; i < 5; ++i)
          o.allowed.push_back(below(vocab));
    }
    o.top.resize(pick<std::size_t>({0, 0, 1, 5, 20}));
    row.num_logprobs = static_cast<std::uint32_t>(o.top.size());
    o.top.resize(std::max(o.top.size(), std::size_t{1}));
    row.logit_bias = o.bias;
    row.counts = o.counts;
    row.forbidden = o.forbidden;
    row.allowed = o.allowed;
    row.top = o.top;
    rows_.push_back(row);
  }

  std::mt19937_64 random_;
  std::deque<owned> owned_;
  std::vector<kernels::sampling_row> rows_;
};

} // namespace troupe::test
