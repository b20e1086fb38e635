#include "services/gateway/text/tiktoken_file.hpp"

#include "services/gateway/text/base64.hpp"
#include "services/gateway/text/json_view.hpp"
#include "services/gateway/text/text_error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <unordered_map>

namespace troupe::text {

namespace {

struct line {
  std::string token;
  std::size_t rank = 0;
};

line read_line(std::string_view text) {
  const auto space = text.find(' ');
  if (space == 0 || space == std::string_view::npos)
    throw text_error("a token in base64, a space and a rank are expected");
  line out;
  const auto base64 = text.substr(0, space);
  // Bits that padding would drop are no part of a token.
  if (base64.size() % 4 != 0)
    throw text_error("not valid base64");
  out.token = decode_base64(base64);
  const auto rank = text.substr(space + 1);
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), out.rank);
  if (error != std::errc{} || end != rank.data() + rank.size())
    throw text_error("'" + std::string(rank) + "' is no rank");
  if (out.rank > json_view::max_token_id)
    throw text_error("rank " + std::string(rank) + " is not believable");
  if (out.token.empty())
    throw text_error("a token is empty");
  return out;
}

} // namespace

std::vector<std::string> read_tiktoken(std::string_view text, const std::string& file) {
  std::vector<std::string> tokens;
  std::unordered_map<std::string, std::size_t> ranks;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    auto written = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(written.size() + 1, text.size()));
    if (written.ends_with('\r'))
      written.remove_suffix(1);
    if (written.empty())
      continue;
    try {
      auto [token, rank] = read_line(written);
      if (const auto [known, is_new] = ranks.emplace(token, rank); !is_new)
        throw text_error("the token occurs twice, with rank " + std::to_string(known->second) + " and "
                         + std::to_string(rank));
      if (rank >= tokens.size())
        tokens.resize(rank + 1);
      if (!tokens[rank].empty())
        throw text_error("rank " + std::to_string(rank) + " occurs twice");
      tokens[rank] = std::move(token);
    } catch (const text_error& e) {
      throw text_error(file + ": line " + std::to_string(number) + ": " + e.what());
    }
  }
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    if (tokens[rank].empty())
      throw text_error(file + ": rank " + std::to_string(rank) + " is missing");
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!ranks.contains(std::string(1, static_cast<char>(byte)))) {
      std::array<char, 8> name{};
      std::snprintf(name.data(), name.size(), "0x%02X", byte);
      throw text_error(file + ": the byte " + name.data() + " is no token");
    }
  }
  return tokens;
}

} // namespace troupe::text
