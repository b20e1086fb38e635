// Scores a text that a server echoes: how likely its tokens are.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace troupe::load {

/// Sums over the scored tokens: all but the first of a record, which has no context.
struct score {
  double nats = 0.0;
  std::uint64_t tokens = 0;
  std::uint64_t bytes = 0;

  void add(const score& other) {
    nats += other.nats;
    tokens += other.tokens;
    bytes += other.bytes;
  }

  double perplexity() const { return std::exp(nats / static_cast<double>(tokens)); }

  double bits_per_byte() const { return nats / std::log(2.0) / static_cast<double>(bytes); }
};

/// The score of one text.
/// @param text      UTF-8
/// @param logprobs  of its echo, as in completions: `token_logprobs`, `text_offset` (in characters)
/// @throws nlohmann::json::exception  they have another form
score score_echo(std::string_view text, const nlohmann::json& logprobs);

} // namespace troupe::load
