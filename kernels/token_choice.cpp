#include "kernels/token_choice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe::kernels {

namespace {

// Tokens of a row examined at a time: most groups contain nothing to keep.
constexpr std::size_t lanes = 16;

// Up to this many keys are sorted by comparing.
constexpr std::size_t few_keys = 512;

// Up to this many best are found with a heap, which few tokens of a row enter.
constexpr std::size_t small_k = 256;

// Partial sums are kept for each group of N tokens, as starting points once the draw is known.
constexpr std::size_t sum_block = 1024;

// A token as one number: a higher logit, then a lower id, gives a greater key. Both zeros are equal.
std::uint64_t key_of(float logit, std::uint32_t token) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return std::uint64_t{ascending} << 32 | static_cast<std::uint32_t>(~token);
}

std::uint32_t token_of(std::uint64_t key) {
  return ~static_cast<std::uint32_t>(key);
}

float logit_of(std::uint64_t key) {
  const auto ascending = static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>((ascending >> 31) != 0 ? ascending & 0x7fffffffU : ~ascending);
}

// Sorts keys in order of id, greatest first; many keys by their logits, 11 bits at a time. `other` has the
// same size.
void sort_keys(std::span<std::uint64_t> keys, std::span<std::uint64_t> other) {
  if (keys.size() <= few_keys) {
    std::sort(keys.begin(), keys.end(), std::greater<>{});
    return;
  }
  constexpr unsigned digit_bits = 11;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  std::array<std::array<std::uint32_t, digits>, 3> places{};
  const auto digit_of = [](std::uint64_t key, std::size_t digit) {
    return ~(key >> (32 + digit * digit_bits)) & (digits - 1);
  };
  for (const std::uint64_t key : keys)
    for (std::size_t digit = 0; digit < places.size(); ++digit)
      ++places[digit][digit_of(key, digit)];
  std::span<std::uint64_t> from = keys;
  std::span<std::uint64_t> to = other.first(keys.size());
  for (std::size_t digit = 0; digit < places.size(); ++digit) {
    std::exclusive_scan(places[digit].begin(), places[digit].end(), places[digit].begin(), 0U);
    for (const std::uint64_t key : from)
      to[places[digit][digit_of(key, digit)]++] = key;
    std::swap(from, to);
  }
  std::ranges::copy(from, keys.begin()); // three passes end in `other`
}

// The choice for one row. `keys_` holds the kept tokens, as keys or as ids.
class choice {
 public:
  choice(const token_shares& row, const token_filters& filters, std::span<std::uint64_t> scratch)
      : row_(row),
        least_(least_share(filters.min_p)),
        keys_(scratch.first(row.vocab)),
        other_(scratch.subspan(row.vocab)) {}

  std::uint32_t among_all(double uniform) {
    double sum = 0.0;
    for (std::size_t begin = 0; begin < row_.vocab; begin += sum_block) {
      keys_[begin / sum_block] = std::bit_cast<std::uint64_t>(sum);
      for (std::size_t token = begin; token < std::min(begin + sum_block, row_.vocab); ++token)
        sum += share(token);
    }
    const double target = uniform * sum;
    std::size_t block = (row_.vocab - 1) / sum_block;
    while (block > 0 && std::bit_cast<double>(keys_[block]) > target)
      --block;
    sum = std::bit_cast<double>(keys_[block]);
    for (std::size_t token = block * sum_block; token < row_.vocab; ++token) {
      sum += share(token);
      if (sum > target)
        return static_cast<std::uint32_t>(token);
    }
    // The draw was rounded up to the sum: take the last kept token.
    std::size_t last = row_.vocab - 1;
    while (last > 0 && row_.shares[last] < least_)
      --last;
    return static_cast<std::uint32_t>(last);
  }

  std::uint32_t among_top_k(std::size_t k, double p, double uniform) {
    auto kept = best(k);
    if (p < 1.0) {
      order_by_token(kept);
      const double wanted = p * sum_of(kept);
      std::ranges::transform(kept, kept.begin(), [&](std::uint64_t token) {
        return key_of(row_.logits[token], static_cast<std::uint32_t>(token));
      });
      cut_top_p(kept, wanted);
    }
    return pick(kept, uniform);
  }

  std::uint32_t among_top_p(double p, double uniform) {
    double sum = 0.0;
    for (std::size_t token = 0; token < row_.vocab; ++token)
      sum += share(token);
    const double wanted = p * sum;
    auto kept = collect(likely_last(wanted));
    if (!cut_top_p(kept, wanted)) {
      kept = collect(0);
      cut_top_p(kept, wanted);
    }
    return pick(kept, uniform);
  }

  std::optional<std::uint32_t> among_best(double least_wanted, double most_wanted, double uniform) {
    auto kept = collect(0);
    sort_keys(kept, other_);
    double sum = 0.0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sum += static_cast<double>(row_.shares[token_of(kept[i])]);
      if (sum >= most_wanted)
        return pick(kept.first(i + 1), uniform);
      if (sum >= least_wanted)
        return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  // A token's share, or 0 if it is not kept; without a branch, which would be unpredictable.
  double share(std::size_t token) const {
    const float value = row_.shares[token];
    return static_cast<double>(value >= least_ ? value : 0.0F);
  }

  // Whether one of the 16 tokens from `begin` on has at least this logit.
  bool any_above(std::size_t begin, float floor) const {
    int above = 0;
    for (std::size_t i = 0; i < lanes; ++i)
      above |= static_cast<int>(row_.logits[begin + i] >= floor);
    return above != 0;
  }

  // Keys, down to `last`, of the tokens with a kept share, in order of id.
  std::span<std::uint64_t> collect(std::uint64_t last) {
    const float floor = last == 0 ? -std::numeric_limits<float>::infinity() : logit_of(last);
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < row_.vocab; begin += lanes) {
      const std::size_t end = std::min(begin + lanes, row_.vocab);
      if (end - begin == lanes && !any_above(begin, floor))
        continue;
      // Written always and counted afterwards: a branch would be unpredictable.
      for (std::size_t token = begin; token < end; ++token) {
        const std::uint64_t key = key_of(row_.logits[token], static_cast<std::uint32_t>(token));
        keys_[count] = key;
        count +=
            static_cast<std::size_t>(key >= last) & static_cast<std::size_t>(row_.shares[token] >= least_);
      }
    }
    return keys_.first(count);
  }

  // Keys of the k best, in any order.
  std::span<std::uint64_t> best(std::size_t k) {
    if (k <= small_k)
      return best_few(k);
    const auto all = collect(0);
    if (k >= all.size())
      return all;
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(k), all.end(), std::greater<>{});
    return all.first(k);
  }

  // The same with a heap of the kept keys, the least on top.
  std::span<std::uint64_t> best_few(std::size_t k) {
    std::uint64_t* const heap = keys_.data();
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < row_.vocab; begin += lanes) {
      const std::size_t end = std::min(begin + lanes, row_.vocab);
      if (count == k && end - begin == lanes && !any_above(begin, logit_of(heap[0])))
        continue;
      for (std::size_t token = begin; token < end; ++token) {
        const std::uint64_t key = key_of(row_.logits[token], static_cast<std::uint32_t>(token));
        if (row_.shares[token] < least_ || (count == k && key < heap[0]))
          continue;
        if (count == k)
          std::pop_heap(heap, heap + count--, std::greater<>{});
        heap[count++] = key;
        std::push_heap(heap, heap + count, std::greater<>{});
      }
    }
    return keys_.first(count);
  }

  // The key down to which tokens probably hold `wanted`: at a share of e⁻², e⁻³, … of the best one's, or 0
  // for all. FP32 sums are good enough to choose the end, not to prove that it suffices.
  std::uint64_t likely_last(double wanted) const {
    for (const float depth : {2.0F, 3.0F, 4.0F, 6.0F, 8.0F, 12.0F}) {
      const float floor = row_.best - depth * row_.temperature;
      std::array<float, lanes> sums{};
      std::size_t i = 0;
      for (; i + lanes <= row_.vocab; i += lanes)
        for (std::size_t j = 0; j < lanes; ++j) {
          const float value = row_.shares[i + j]; // read unconditionally, so that compilers can vectorise
          sums[j] += row_.logits[i + j] >= floor ? value : 0.0F;
        }
      for (; i < row_.vocab; ++i)
        sums[0] += row_.logits[i] >= floor ? row_.shares[i] : 0.0F;
      if (static_cast<double>(std::accumulate(sums.begin(), sums.end(), 0.0F)) >= wanted)
        return key_of(floor, std::numeric_limits<std::uint32_t>::max());
    }
    return 0;
  }

  // Sorts keys in order of id, and cuts them after the one with which their shares reach `wanted`.
  // @returns whether they do
  bool cut_top_p(std::span<std::uint64_t>& kept, double wanted) const {
    sort_keys(kept, other_);
    double sum = 0.0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sum += static_cast<double>(row_.shares[token_of(kept[i])]);
      if (sum >= wanted) {
        kept = kept.first(i + 1);
        return true;
      }
    }
    return false;
  }

  // Converts keys, complete down to the least of them, to their tokens in order of id.
  void order_by_token(std::span<std::uint64_t> kept) {
    if (kept.size() > few_keys)
      collect(*std::min_element(kept.begin(), kept.end()));
    std::ranges::transform(kept, kept.begin(), token_of);
    if (kept.size() <= few_keys)
      std::sort(kept.begin(), kept.end());
  }

  double sum_of(std::span<const std::uint64_t> tokens) const {
    double sum = 0.0;
    for (const std::uint64_t token : tokens)
      sum += static_cast<double>(row_.shares[token]);
    return sum;
  }

  std::uint32_t pick(std::span<std::uint64_t> kept, double uniform) {
    order_by_token(kept);
    const double target = uniform * sum_of(kept);
    double sum = 0.0;
    for (const std::uint64_t token : kept) {
      sum += static_cast<double>(row_.shares[token]);
      if (sum > target)
        return static_cast<std::uint32_t>(token);
    }
    return kept.empty() ? 0 : static_cast<std::uint32_t>(kept.back());
  }

  const token_shares& row_;
  float least_;
  std::span<std::uint64_t> keys_;  // [vocab]
  std::span<std::uint64_t> other_; // same size, for sorting
};

} // namespace

std::uint32_t choose_token(const token_shares& row, const token_filters& filters, double uniform,
                           std::span<std::uint64_t> scratch) {
  choice choose(row, filters, scratch);
  const auto p = static_cast<double>(filters.top_p);
  if (has_top_k(filters.top_k, row.vocab))
    return choose.among_top_k(filters.top_k, p, uniform);
  return p < 1.0 ? choose.among_top_p(p, uniform) : choose.among_all(uniform);
}

std::optional<std::uint32_t> choose_among_best(const token_shares& row, float min_p, double least_wanted,
                                               double most_wanted, double uniform,
                                               std::span<std::uint64_t> scratch) {
  return choice(row, {.min_p = min_p}, scratch).among_best(least_wanted, most_wanted, uniform);
}

} // namespace troupe::kernels
