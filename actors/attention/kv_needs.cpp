#include "actors/attention/kv_needs.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

/// Choices of a request start when its prompt is computed, a step or more after their first one.
constexpr std::uint32_t kept_blocks = 2;

std::uint32_t first_position(const kv_reach& reach, std::uint32_t position) {
  if (reach.chunk != 0)
    return position / reach.chunk * reach.chunk;
  return reach.window != 0 && position >= reach.window ? position + 1 - reach.window : 0;
}

} // namespace

kv_needs::kv_needs(std::vector<kv_reach> reaches, std::uint32_t block_tokens, std::uint32_t most_rows)
    : reaches_(std::move(reaches)), block_tokens_(block_tokens), most_rows_(most_rows) {}

std::uint32_t kv_needs::first_seen(std::size_t table, std::uint32_t position) const {
  return first_position(reaches_[table], position) / block_tokens_;
}

std::uint32_t kv_needs::first_kept(std::size_t table, std::uint32_t position) const {
  return first_seen(table, position - std::min(position, kept_blocks * block_tokens_));
}

std::uint32_t kv_needs::most_of(std::size_t table, std::uint32_t num_tokens, std::uint32_t rows) const {
  const auto& reach = reaches_[table];
  const auto whole = blocks_of(num_tokens);
  const auto seen = std::max(reach.window, reach.chunk);
  if (seen == 0)
    return whole;
  const auto tokens = std::uint64_t{seen} + rows + std::uint64_t{kept_blocks} * block_tokens_;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(whole, tokens / block_tokens_ + 2));
}

std::uint32_t kv_needs::most_of(std::size_t table, std::uint32_t num_tokens) const {
  return most_of(table, num_tokens, most_rows_);
}

std::uint64_t kv_needs::most_of_all(std::uint32_t num_tokens) const {
  std::uint64_t sum = 0;
  for (std::size_t table = 0; table < num_tables(); ++table)
    sum += most_of(table, num_tokens);
  return sum;
}

std::uint32_t kv_needs::most_tokens(std::uint64_t num_blocks, std::uint32_t max_tokens,
                                    std::uint32_t rows) const {
  const auto fits = [&](std::uint64_t tokens) {
    std::uint64_t sum = 0;
    for (std::size_t table = 0; table < num_tables(); ++table)
      sum += most_of(table, static_cast<std::uint32_t>(tokens), rows);
    return sum <= num_blocks;
  };
  std::uint64_t least = 0;
  for (std::uint64_t most = max_tokens; least < most;) {
    const auto middle = (least + most + 1) / 2;
    if (fits(middle))
      least = middle;
    else
      most = middle - 1;
  }
  return static_cast<std::uint32_t>(least);
}

std::uint32_t kv_needs::longest(std::uint32_t num_blocks, std::uint32_t max_tokens) const {
  return most_tokens(num_blocks, max_tokens, most_rows_);
}

std::uint64_t kv_needs::capacity(std::uint32_t num_blocks, std::uint32_t num_seqs,
                                 std::uint32_t max_tokens) const {
  // Windows save most where all sequences are long. Equal lengths take the most blocks.
  const std::uint64_t without_windows = std::uint64_t{num_blocks} / num_tables() * block_tokens_;
  const std::uint64_t of_equal =
      std::uint64_t{num_seqs} * most_tokens(num_blocks / std::max(num_seqs, 1U), max_tokens, 1);
  return std::max({without_windows, of_equal, std::uint64_t{longest(num_blocks, max_tokens)}});
}

} // namespace troupe
