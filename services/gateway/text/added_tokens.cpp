#include "services/gateway/text/added_tokens.hpp"

#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace troupe::text {

namespace {

/// Start of the character that ends at `end`.
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
    if (!is_whitespace(decode_at(text, before).value))
      break;
    at = before;
  }
  return at;
}

std::size_t skip_spaces_right(std::string_view text, std::size_t at) noexcept {
  while (at < text.size()) {
    const auto c = decode_at(text, at);
    if (!is_whitespace(c.value))
      break;
    at += c.size;
  }
  return at;
}

/// Collects the contents of one kind of difference for one line.
class difference_list {
 public:
  explicit difference_list(std::string_view what) : what_(what) {}

  void add(const std::string& content) {
    constexpr std::size_t most_named = 4;
    if (++count_ <= most_named)
      names_ += (count_ == 1 ? "'" : ", '") + content + "'";
    else if (count_ == most_named + 1)
      names_ += ", …";
  }

  bool empty() const { return count_ == 0; }

  std::string text() const { return std::to_string(count_) + " " + what_ + " (" + names_ + ")"; }

 private:
  std::string what_;
  std::string names_;
  std::size_t count_ = 0;
};

auto flags_of(const added_token& token) {
  return std::tuple(token.single_word, token.strip_left, token.strip_right, token.normalized, token.special);
}

} // namespace

added_tokens::added_tokens(const json_view& json, const tokenizer_config& config, const vocabulary& entries,
                           const normalizer* normal, ids from) {
  std::vector<added_token> tokens;
  std::unordered_set<std::int32_t> known_ids;
  for (std::size_t i = 0; json.has("added_tokens") && i < json.at("added_tokens").array_size(); ++i) {
    const auto member = json.at("added_tokens").item(i);
    const auto id = member.at("id").token_id();
    known_ids.insert(id);
    tokens.push_back({.content = member.at("content").string(),
                      .id = id,
                      .single_word = member.at("single_word").boolean(),
                      .strip_left = member.at("lstrip").boolean(),
                      .strip_right = member.at("rstrip").boolean(),
                      .normalized = member.at("normalized").boolean(),
                      .special = member.at("special").boolean()});
  }
  difference_list added("tokens that tokenizer.json lacks");
  difference_list changed("tokens that tokenizer.json gives other flags");
  string_map<std::size_t> places; // of equal ones the first counts
  for (std::size_t i = 0; i < tokens.size(); ++i)
    places.emplace(tokens[i].content, i);
  for (const auto& listed : config.listed_tokens(known_ids)) {
    const auto [place, is_new] = places.emplace(listed.content, tokens.size());
    if (is_new) {
      tokens.push_back(listed);
      added.add(listed.content);
      continue;
    }
    auto& known = tokens[place->second];
    auto merged = listed;
    merged.special = known.special || listed.special; // a special token never becomes ordinary
    if (flags_of(known) != flags_of(merged))
      changed.add(listed.content);
    known = merged;
  }
  for (const auto& named : config.named_tokens()) {
    if (places.emplace(named.content, tokens.size()).second) {
      tokens.push_back(named);
      added.add(named.content);
    }
  }
  for (const auto& list : {added, changed})
    if (!list.empty() && json.has("added_tokens"))
      differences_.push_back(config.file().file() + ": " + list.text());
  index(tokens, json, entries, normal, from);
}

void added_tokens::index(const std::vector<added_token>& tokens, const json_view& json,
                         const vocabulary& entries, const normalizer* normal, ids from) {
  std::vector<std::int32_t> special;
  std::vector<std::int32_t> others;
  auto next_id = static_cast<std::int32_t>(entries.size());
  for (auto token : tokens) {
    if (token.content.empty() || ids_.contains(token.content))
      continue;
    token.decoded = token.content;
    if (token.normalized && normal != nullptr) {
      std::size_t from_first = 0;
      normal->apply(token.decoded, from_first);
    }
    const bool listed = from == ids::as_listed && token.id >= 0;
    const auto id = listed ? token.id : entries.id_of(token.content).value_or(next_id);
    if (from == ids::as_listed)
      next_id = std::max(next_id, id + 1); // named tokens that no file lists come last
    else if (id == next_id)
      ++next_id;
    if (id > json_view::max_token_id)
      json.fail("too many tokens");
    if (!token.decoded.empty())
      (token.special ? special : others).push_back(id);
    ids_.emplace(token.content, id);
    end_id_ = std::max(end_id_, id + 1);
    by_id_.insert_or_assign(id, std::move(token));
  }
  // Several contents may be equal after normalization: the first is found, special ones before others. So did
  // Hugging Face's tokenizers while their order was defined; 0.23 finds a random one.
  std::unordered_set<std::string_view> taken;
  for (const auto* list : {&special, &others}) {
    for (const auto id : *list) {
      const auto& token = by_id_.at(id);
      if (!token.normalized)
        raw_.insert(token.decoded, id);
      else if (taken.insert(token.decoded).second)
        normalized_.insert(token.decoded, id);
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
    if (token.strip_left || token.strip_right)
      return std::nullopt;
    most = std::max({most, token.content.size(), token.decoded.size()});
  }
  return most;
}

std::vector<piece> added_tokens::split(const byte_trie& tokens, std::string_view text) const {
  std::vector<piece> out;
  std::size_t done = 0;
  limited_steps steps(64); // a step walks along the longest tokens
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
    check_work_limit(); // it may take megabytes of blanks with it
    const auto& token = by_id_.at(id);
    auto begin = at;
    auto end = at + length;
    at = end; // a rejected match is skipped whole
    if (token.single_word && (word_ends_at(text, begin) || word_starts_at(text, end)))
      continue;
    if (token.strip_left)
      begin = skip_spaces_left(text, begin, std::min(done, begin));
    if (token.strip_right)
      end = skip_spaces_right(text, end);
    begin = std::max(begin, done); // these blanks may belong to the previous token
    if (done < begin)
      out.push_back({done, begin, 0, piece::to_encode});
    out.push_back({begin, end, 0, id});
    done = end;
  }
  if (done < text.size())
    out.push_back({done, text.size(), 0, piece::to_encode});
  return out;
}

} // namespace troupe::text
