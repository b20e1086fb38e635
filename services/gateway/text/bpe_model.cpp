#include "services/gateway/text/byte_alphabet.hpp"
#include "services/gateway/text/byte_trie.hpp"
#include "services/gateway/text/flat_map.hpp"
#include "services/gateway/text/model.hpp"
#include "services/gateway/text/text_error.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace troupe::text {

namespace {

/// Joins two neighbours into one entry; lower ranks go first.
struct merge {
  std::uint32_t rank = 0;
  std::int32_t joined = 0;
};

constexpr std::uint64_t pair_key(std::int32_t left, std::int32_t right) noexcept {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U)
         | static_cast<std::uint32_t>(right);
}

/// Part of a word during merging; the parts form a doubly linked list by index.
struct symbol {
  std::int32_t id;
  std::int32_t previous; // -1: none
  std::int32_t next;     // -1: none
  bool gone;             // joined into its left neighbour
};

/// A pair that may be joined. Stale pairs stay in the queue and are recognised when popped.
struct candidate {
  std::uint32_t rank;
  std::int32_t position;
  std::int32_t joined;

  // The heap pops the greatest: lowest rank, then leftmost.
  bool operator<(const candidate& other) const noexcept {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

/// Buffers for merging a word, reused for the next one.
struct work_space {
  std::vector<symbol> symbols;
  std::vector<candidate> heap;
};

/// Frees the memory of a long text at the end of the encoding, exceptions included, so that the thread does
/// not keep it.
class shrinking {
 public:
  explicit shrinking(work_space& work) : work_(work) {}

  shrinking(const shrinking&) = delete;
  shrinking& operator=(const shrinking&) = delete;

  ~shrinking() {
    constexpr std::size_t kept = 1UL << 16U;
    if (work_.symbols.capacity() > kept || work_.heap.capacity() > kept)
      work_ = {};
  }

 private:
  work_space& work_;
};

/// Steps between two checks of the limit within one piece, which may be a whole text without a place to cut.
constexpr std::uint32_t steps_of_a_look = 1024;

class bpe_model final : public model {
 public:
  explicit bpe_model(const json_view& json);
  explicit bpe_model(ranked_entries list);

  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override;
  bool covers_all(bool byte_level) const override;

 private:
  void read_vocabulary(const json_view& json);
  void read_merges(const json_view& json);
  void find_merges(const ranked_entries& list);
  void index_characters();
  void split_to_symbols(std::string_view piece, std::vector<symbol>& symbols) const;
  void join_all(work_space& work) const;
  std::optional<std::int32_t> id_of_character(std::string_view character, bool first, bool last) const;

  flat_map<merge> merges_;
  byte_trie wholes_;                                   // entries that are found in a piece before it is split
  std::array<std::int32_t, 256> byte_tokens_{};        // <0x00> …; -1: absent
  std::array<std::int32_t, 0x800> short_characters_{}; // of characters of one or two bytes; -1: absent
  std::string prefix_;                                 // before each character of a word but the first
  std::string suffix_;                                 // after the last character
  std::optional<std::int32_t> unknown_;
  bool fuse_unknown_;
  bool byte_fallback_;
  bool whole_word_first_; // a piece that is an entry is not split ("ignore_merges")
};

bpe_model::bpe_model(const json_view& json)
    : prefix_(json.string_or("continuing_subword_prefix", "")),
      suffix_(json.string_or("end_of_word_suffix", "")),
      fuse_unknown_(json.boolean_or("fuse_unk", false)),
      byte_fallback_(json.boolean_or("byte_fallback", false)),
      whole_word_first_(json.boolean_or("ignore_merges", false)) {
  if (json.has("dropout") && json.at("dropout").number() != 0.0)
    json.at("dropout").fail("dropout makes tokenization random and is not supported");
  read_vocabulary(json.at("vocab"));
  read_merges(json.at("merges"));
  if (json.has("unk_token")) {
    const auto token = json.at("unk_token");
    unknown_ = entries_.id_of(token.string());
    if (!unknown_)
      token.fail("unknown token '" + token.string() + "' is not in the vocabulary");
  }
  index_characters();
}

bpe_model::bpe_model(ranked_entries list)
    : fuse_unknown_(list.fuse_unknown),
      byte_fallback_(list.byte_fallback),
      whole_word_first_(list.whole_word_first) {
  entries_.reserve(list.entries.size());
  for (std::size_t id = 0; id < list.entries.size(); ++id) {
    const auto& token = list.entries[id].token;
    if (!entries_.add(token, static_cast<std::int32_t>(id)))
      throw text_error("the entry '" + token + "' occurs twice");
    if (list.entries[id].whole)
      wholes_.insert(token, static_cast<std::int32_t>(id));
  }
  if (list.unknown)
    unknown_ = entries_.id_of(*list.unknown);
  index_characters();
  find_merges(list);
}

/// An entry is only ever made by one pair: what the merges of shorter ones leave of it when it stands alone.
/// They do the same in a longer text, unless a merge that crosses the entry's ends comes first: then it is
/// not made.
void bpe_model::find_merges(const ranked_entries& list) {
  std::vector<std::size_t> order;
  for (std::size_t id = 0; id < list.entries.size(); ++id)
    if (list.entries[id].rank != ranked_entries::never)
      order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return list.entries[a].token.size() < list.entries[b].token.size();
  });
  merges_ = flat_map<merge>(order.size());
  work_space work;
  for (const auto id : order) {
    const auto& [token, rank, whole] = list.entries[id];
    split_to_symbols(token, work.symbols);
    join_all(work);
    if (work.symbols.empty() || work.symbols.front().next < 0)
      continue; // a character
    const auto& left = work.symbols.front();
    const auto& right = work.symbols[static_cast<std::size_t>(left.next)];
    const bool has_whole = whole || list.entries[static_cast<std::size_t>(left.id)].whole
                           || list.entries[static_cast<std::size_t>(right.id)].whole;
    // Bytes of a character that is no entry, and unknown ones, do not make the token.
    if (right.next < 0 && !has_whole && *entries_.token_of(left.id) + *entries_.token_of(right.id) == token)
      merges_.set(pair_key(left.id, right.id), {rank, static_cast<std::int32_t>(id)});
  }
}

void bpe_model::index_characters() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    byte_tokens_[byte] = entries_.id_of(name.data()).value_or(-1);
  }
  for (char32_t c = 0; c < short_characters_.size(); ++c) {
    std::string text;
    append_utf8(text, c);
    short_characters_[c] = entries_.id_of(text).value_or(-1);
  }
}

void bpe_model::read_vocabulary(const json_view& json) {
  json.expect_object();
  entries_.reserve(json.value().size());
  for (const auto& [token, id] : json.value().items()) {
    const json_view member(id, json.file(), json.path() + "/" + token);
    if (!entries_.add(token, member.token_id()))
      member.fail("the id belongs to another entry already");
  }
}

void bpe_model::read_merges(const json_view& json) {
  const auto count = json.array_size();
  merges_ = flat_map<merge>(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto& value = json.value()[rank];
    std::string left;
    std::string right;
    if (value.is_string()) { // "left right"
      const auto& text = value.get_ref<const std::string&>();
      const auto space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        json.item(rank).fail("two entries with one space between them are expected");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      const auto pair = json.item(rank);
      if (pair.array_size() != 2)
        pair.fail("two entries are expected");
      left = pair.item(0).string();
      right = pair.item(1).string();
    }
    const auto left_id = entries_.id_of(left);
    const auto right_id = entries_.id_of(right);
    if (!left_id || !right_id)
      json.item(rank).fail("'" + (left_id ? right : left) + "' is not in the vocabulary");
    if (right.size() < prefix_.size())
      json.item(rank).fail("'" + right + "' is shorter than the subword prefix");
    const std::string joined = left + right.substr(prefix_.size());
    const auto joined_id = entries_.id_of(joined);
    if (!joined_id)
      json.item(rank).fail("'" + joined + "' is not in the vocabulary");
    merges_.set(pair_key(*left_id, *right_id), {static_cast<std::uint32_t>(rank), *joined_id});
  }
}

std::optional<std::int32_t> bpe_model::id_of_character(std::string_view character, bool first,
                                                       bool last) const {
  const bool decorated = (!first && !prefix_.empty()) || (last && !suffix_.empty());
  if (!decorated) {
    if (character.size() <= 2) {
      const auto id = short_characters_[decode_at(character, 0).value];
      return id < 0 ? std::nullopt : std::optional(id);
    }
    return entries_.id_of(character);
  }
  return entries_.id_of((first ? "" : prefix_) + std::string(character) + (last ? suffix_ : ""));
}

void bpe_model::split_to_symbols(std::string_view piece, std::vector<symbol>& symbols) const {
  symbols.clear();
  const auto add = [&](std::int32_t id) {
    const auto index = static_cast<std::int32_t>(symbols.size());
    if (index > 0)
      symbols.back().next = index;
    symbols.push_back({id, index - 1, -1, false});
  };
  // An unknown character is held back until the next known one, because it may be fused with the unknown ones
  // after it. Bytes do not count as known, as in Hugging Face's implementation.
  bool unknown_pending = false;
  limited_steps steps(steps_of_a_look);
  for (std::size_t at = 0; at < piece.size();) {
    steps.step();
    const auto size = utf8_size(piece[at]);
    const auto character = piece.substr(at, size);
    const bool first = at == 0;
    if (!wholes_.empty() && wholes_.starts(piece[at])) {
      std::size_t length = 0;
      std::int32_t whole = 0;
      wholes_.for_each_prefix(piece, at, [&](std::size_t found_length, std::int32_t found) {
        length = found_length;
        whole = found;
      });
      if (length > 0) {
        if (std::exchange(unknown_pending, false))
          add(*unknown_);
        add(whole);
        at += length;
        continue;
      }
    }
    at += size;
    const bool last = at == piece.size();
    if (const auto id = id_of_character(character, first, last)) {
      if (std::exchange(unknown_pending, false))
        add(*unknown_);
      add(*id);
      continue;
    }
    if (byte_fallback_) {
      const std::string written = (first ? "" : prefix_) + std::string(character) + (last ? suffix_ : "");
      bool complete = true;
      for (const char c : written)
        complete = complete && byte_tokens_[static_cast<std::uint8_t>(c)] >= 0;
      if (complete) {
        for (const char c : written)
          add(byte_tokens_[static_cast<std::uint8_t>(c)]);
        continue;
      }
    }
    if (unknown_) {
      if (unknown_pending && !fuse_unknown_)
        add(*unknown_);
      unknown_pending = true;
    } // without an unknown token the character is dropped
  }
  if (unknown_pending)
    add(*unknown_);
}

void bpe_model::join_all(work_space& work) const {
  auto& symbols = work.symbols;
  work.heap.clear();
  const auto find = [&](std::int32_t left) -> const merge* {
    const auto& s = symbols[static_cast<std::size_t>(left)];
    return s.next < 0 ? nullptr : merges_.find(pair_key(s.id, symbols[static_cast<std::size_t>(s.next)].id));
  };
  limited_steps steps(steps_of_a_look);
  for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(symbols.size()); ++i) {
    steps.step();
    if (const auto* m = find(i))
      work.heap.push_back({m->rank, i, m->joined});
  }
  std::make_heap(work.heap.begin(), work.heap.end());
  const auto push = [&](std::int32_t left) {
    if (const auto* m = find(left)) {
      work.heap.push_back({m->rank, left, m->joined});
      std::push_heap(work.heap.begin(), work.heap.end());
    }
  };
  while (!work.heap.empty()) {
    steps.step();
    std::pop_heap(work.heap.begin(), work.heap.end());
    const auto top = work.heap.back();
    work.heap.pop_back();
    auto& left = symbols[static_cast<std::size_t>(top.position)];
    if (left.gone || left.next < 0)
      continue;
    const auto* current = find(top.position);
    if (current == nullptr || current->joined != top.joined)
      continue; // one of the two has been joined since
    auto& right = symbols[static_cast<std::size_t>(left.next)];
    left.id = top.joined;
    left.next = right.next;
    right.gone = true;
    if (left.next >= 0)
      symbols[static_cast<std::size_t>(left.next)].previous = top.position;
    if (left.previous >= 0)
      push(left.previous);
    push(top.position);
  }
}

bool bpe_model::covers_all(bool byte_level) const {
  const auto is_known = [](std::int32_t id) { return id >= 0; };
  if (byte_fallback_ && std::all_of(byte_tokens_.begin(), byte_tokens_.end(), is_known))
    return true;
  if (byte_level && prefix_.empty() && suffix_.empty()) {
    bool complete = true;
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::string character;
      append_byte_level(character, std::string(1, static_cast<char>(byte)));
      complete = complete && entries_.id_of(character);
    }
    if (complete)
      return true;
  }
  return unknown_ && !fuse_unknown_; // one id for each unknown character
}

void bpe_model::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (whole_word_first_) {
    if (const auto id = entries_.id_of(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  thread_local work_space work;
  const shrinking afterwards(work);
  split_to_symbols(piece, work.symbols);
  join_all(work);
  for (const auto& s : work.symbols)
    if (!s.gone)
      ids.push_back(s.id);
}

} // namespace

std::unique_ptr<const model> make_bpe_model(const json_view& json) {
  return std::make_unique<bpe_model>(json);
}

std::unique_ptr<const model> make_ranked_bpe_model(ranked_entries list) {
  return std::make_unique<bpe_model>(std::move(list));
}

} // namespace troupe::text
