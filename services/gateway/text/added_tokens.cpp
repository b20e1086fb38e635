#include "services/gateway/text/added_tokens.hpp"

#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <algorithm>
#include <unordered_set>

namespace troupe::text {

namespace {

/// Start of the character that ends at @p end.
std::size_t previous_character(std::string_view text, std::size_t end) noexcept {
  do {
    --end;
  } while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U);
  return end;
}

bool word_ends_at(std::string_view text, std::size_t at) noexcept {
  return at > 0 && is_word(decode_at(text, previous_character(text, at)).value);
}

bool word_starts_at(std::string_view text, std::size_t at) noexcept {
  return at < text.size() && is_word(decode_at(text, at).value);
}

std::size_t skip_spaces_left(std::string_view text, std::size_t at, std::size_t stop) noexcept {
  while (at > stop) {
    const auto before = previous_character(text, at);
    if (!is_whitespace(decode_at(text, before).value)) {
      break;
    }
    at = before;
  }
  return at;
}

std::size_t skip_spaces_right(std::string_view text, std::size_t at) noexcept {
  while (at < text.size()) {
    const auto c = decode_at(text, at);
    if (!is_whitespace(c.value)) {
      break;
    }
    at += c.size;
  }
  return at;
}

} // namespace

added_tokens::added_tokens(const json_view& json, const vocabulary& entries, const normalizer* normal) {
  std::vector<std::int32_t> special;
  std::vector<std::int32_t> others;
  auto next_id = static_cast<std::int32_t>(entries.size());
  for (std::size_t i = 0; i < json.array_size(); ++i) {
    const auto member = json.item(i);
    member.at("id").token_id();
    added_token token{.content = member.at("content").string(),
                      .decoded = {},
                      .single_word = member.at("single_word").boolean(),
                      .strip_left = member.at("lstrip").boolean(),
                      .strip_right = member.at("rstrip").boolean(),
                      .normalized = member.at("normalized").boolean(),
                      .special = member.at("special").boolean()};
    if (token.content.empty() || ids_.contains(token.content)) {
      continue;
    }
    token.decoded = token.content;
    if (token.normalized && normal != nullptr) {
      std::size_t from_first = 0;
      normal->apply(token.decoded, from_first);
    }
    const auto id = entries.id_of(token.content).value_or(next_id);
    if (id == next_id) {
      ++next_id;
    }
    if (id > json_view::max_token_id) {
      member.fail("too many tokens");
    }
    if (!token.decoded.empty()) {
      (token.special ? special : others).push_back(id);
    }
    ids_.emplace(token.content, id);
    end_id_ = std::max(end_id_, id + 1);
    by_id_.insert_or_assign(id, std::move(token));
  }
  // Normalized, several may be equal: the first is found, special ones before others. So did Hugging Face's
  // tokenizers while their order was defined; 0.23 finds a random one.
  std::unordered_set<std::string_view> taken;
  for (const auto* list : {&special, &others}) {
    for (const auto id : *list) {
      const auto& token = by_id_.at(id);
      if (!token.normalized) {
        raw_.insert(token.decoded, id);
      } else if (taken.insert(token.decoded).second) {
        normalized_.insert(token.decoded, id);
      }
    }
  }
}

const added_token* added_tokens::find(std::int32_t id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

std::optional<std::int32_t> added_tokens::id_of(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> added_tokens::longest() const {
  std::size_t most = 0;
  for (const auto& [id, token] : by_id_) {
    if (token.strip_left || token.strip_right) {
      return std::nullopt;
    }
    most = std::max({most, token.content.size(), token.decoded.size()});
  }
  return most;
}

std::vector<piece> added_tokens::split(const byte_trie& tokens, std::string_view text) const {
  std::vector<piece> out;
  std::size_t done = 0;
  limited_steps steps(64); // each walks along the longest tokens
  for (std::size_t at = 0; !tokens.empty() && at < text.size();) {
    steps.step();
    std::size_t length = 0;
    std::int32_t id = 0;
    tokens.for_each_prefix(text, at, [&](std::size_t found_length, std::int32_t found_id) {
      length = found_length;
      id = found_id;
    });
    if (length == 0) {
      ++at;
      continue;
    }
    check_work_limit(); // blanks around it may be megabytes
    const auto& token = by_id_.at(id);
    auto begin = at;
    auto end = at + length;
    at = end; // a rejected match is skipped whole
    if (token.single_word && (word_ends_at(text, begin) || word_starts_at(text, end))) {
      continue;
    }
    if (token.strip_left) {
      begin = skip_spaces_left(text, begin, std::min(done, begin));
    }
    if (token.strip_right) {
      end = skip_spaces_right(text, end);
    }
    begin = std::max(begin, done); // blanks behind the previous token may be its own
    if (done < begin) {
      out.push_back({done, begin, 0, piece::to_encode});
    }
    out.push_back({begin, end, 0, id});
    done = end;
  }
  if (done < text.size()) {
    out.push_back({done, text.size(), 0, piece::to_encode});
  }
  return out;
}

} // namespace troupe::text
