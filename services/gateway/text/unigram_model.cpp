#include "services/gateway/text/byte_trie.hpp"
#include "services/gateway/text/model.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>

namespace troupe::text {

namespace {

/// SentencePiece's penalty: an unknown character scores this much less than the worst entry.
constexpr double unknown_penalty = 10.0;

class unigram_model final : public model {
 public:
  explicit unigram_model(const json_view& json);

  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const override;
  bool covers_all(bool byte_level) const override;

 private:
  /// The best encoding of the text up to here: its last entry, the start of that entry, the sum of log
  /// probabilities.
  struct path_end {
    double score = 0.0;
    std::int32_t id = 0;
    std::int64_t starts = -1; // -1: not reached yet
  };

  /// Part of a piece, and its entry.
  struct part {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };

  struct work_space {
    std::vector<path_end> ends;
    std::vector<part> parts;
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
      if (work_.ends.capacity() > kept)
        work_ = {};
    }

   private:
    work_space& work_;
  };

  void find_best_path(std::string_view piece, std::vector<path_end>& ends) const;
  void append_unknown(std::string_view run, std::vector<std::int32_t>& ids) const;
  std::int32_t unknown_id() const;

  byte_trie trie_;
  std::vector<double> scores_; // by id
  std::array<std::int32_t, 256> byte_tokens_{};
  std::optional<std::int32_t> unknown_;
  double unknown_score_ = 0.0;
  bool byte_fallback_;
};

unigram_model::unigram_model(const json_view& json)
    : byte_fallback_(json.boolean_or("byte_fallback", false)) {
  const auto vocab = json.at("vocab");
  const auto count = vocab.array_size();
  if (count > static_cast<std::size_t>(json_view::max_token_id))
    vocab.fail("too many entries");
  entries_.reserve(count);
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = vocab.item(i);
    if (entry.array_size() != 2)
      entry.fail("an entry and its score are expected");
    const auto& token = entry.item(0).string();
    const auto id = static_cast<std::int32_t>(i);
    if (!entries_.add(token, id))
      entry.fail("entry '" + token + "' is there twice");
    scores_.push_back(entry.item(1).number());
    lowest = std::min(lowest, scores_.back());
    if (!token.empty())
      trie_.insert(token, id);
  }
  unknown_score_ = lowest - unknown_penalty;
  if (json.has("unk_id")) {
    const auto unk = json.at("unk_id");
    if (unk.count() >= count)
      unk.fail("the id is not in the vocabulary");
    unknown_ = unk.token_id();
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    byte_tokens_[byte] = entries_.id_of(name.data()).value_or(-1);
  }
}

std::int32_t unigram_model::unknown_id() const {
  if (!unknown_) {
    throw text_error(
        "the text has a character that is not in the vocabulary, and tokenizer.json names no unk_id");
  }
  return *unknown_;
}

void unigram_model::find_best_path(std::string_view piece, std::vector<path_end>& ends) const {
  ends.assign(piece.size() + 1, {});
  limited_steps steps(64); // a step walks along the longest entries
  for (std::size_t at = 0; at < piece.size();) {
    steps.step();
    const auto size = utf8_size(piece[at]);
    const double score_here = ends[at].score;
    // On a tie the earlier start (the longer entry) stays.
    const auto offer = [&](std::size_t length, double score, std::int32_t id) {
      auto& end = ends[at + length];
      const double candidate = score + score_here;
      if (end.starts < 0 || candidate > end.score)
        end = {candidate, id, static_cast<std::int64_t>(at)};
    };
    bool has_single = false;
    trie_.for_each_prefix(piece, at, [&](std::size_t length, std::int32_t id) {
      offer(length, scores_[static_cast<std::size_t>(id)], id);
      has_single = has_single || length == size;
    });
    if (!has_single)
      offer(size, unknown_score_, unknown_id());
    at += size;
  }
}

void unigram_model::append_unknown(std::string_view run, std::vector<std::int32_t>& ids) const {
  if (const auto id = entries_.id_of(run)) { // unknown neighbours may be an entry together
    ids.push_back(*id);
    return;
  }
  const auto has_byte = [&](char c) { return byte_tokens_[static_cast<std::uint8_t>(c)] >= 0; };
  if (byte_fallback_ && std::all_of(run.begin(), run.end(), has_byte)) {
    for (const char c : run)
      ids.push_back(byte_tokens_[static_cast<std::uint8_t>(c)]);
    return;
  }
  ids.push_back(unknown_id());
}

bool unigram_model::covers_all(bool /*byte_level*/) const {
  // Without byte fallback a run of unknown characters is one id of any length.
  return byte_fallback_
         && std::all_of(byte_tokens_.begin(), byte_tokens_.end(), [](std::int32_t id) { return id >= 0; });
}

void unigram_model::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  thread_local work_space work;
  const shrinking afterwards(work);
  auto& [ends, parts] = work;
  find_best_path(piece, ends);

  // Walks back along the path; a run of unknown characters is one part.
  parts.clear();
  for (std::size_t end = piece.size(); end > 0;) {
    const auto& node = ends[end];
    const auto begin = static_cast<std::size_t>(node.starts);
    if (node.id == unknown_ && !parts.empty() && parts.back().id == unknown_)
      parts.back().begin = begin;
    else
      parts.push_back({begin, end, node.id});
    end = begin;
  }
  for (auto p = parts.rbegin(); p != parts.rend(); ++p)
    if (p->id == unknown_)
      append_unknown(piece.substr(p->begin, p->end - p->begin), ids);
    else
      ids.push_back(p->id);
}

} // namespace

std::unique_ptr<const model> make_unigram_model(const json_view& json) {
  return std::make_unique<unigram_model>(json);
}

} // namespace troupe::text
