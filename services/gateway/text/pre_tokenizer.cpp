#include "services/gateway/text/pre_tokenizer.hpp"

#include "services/gateway/text/byte_alphabet.hpp"
#include "services/gateway/text/pattern.hpp"
#include "services/gateway/text/regex.hpp"
#include "services/gateway/text/split_behavior.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::text {

namespace {

/// GPT-2's own pattern.
constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Cuts every piece that is not a token yet: find(text of the piece, stretches) fills in its stretches.
template <class F>
void cut_pieces(pieces& text, split_behavior behavior, F&& find) {
  std::vector<piece> out;
  out.reserve(text.list.size());
  std::vector<stretch> stretches;
  for (const auto& p : text.list) {
    if (p.id != piece::to_encode) {
      out.push_back(p);
      continue;
    }
    stretches.clear();
    find(text.view(p), stretches);
    append_split(out, p, stretches, behavior);
  }
  text.list = std::move(out);
}

void add_gap(std::vector<stretch>& out, std::size_t begin, std::size_t end, bool inverted) {
  if (begin < end)
    out.push_back({begin, end, inverted});
}

void find_stretches(const regex& pattern, std::string_view text, bool inverted, std::vector<stretch>& out) {
  std::size_t done = 0;
  regex::cursor at;
  while (const auto found = pattern.next(text, at)) {
    add_gap(out, done, found->begin, inverted);
    out.push_back({found->begin, found->end, !inverted});
    done = found->end;
  }
  add_gap(out, done, text.size(), inverted);
}

/// Returns one match for each character that `matches` accepts.
template <class F>
void find_characters(std::string_view text, F&& matches, std::vector<stretch>& out) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    if (matches(c.value)) {
      add_gap(out, done, at, false);
      out.push_back({at, at + c.size, true});
      done = at + c.size;
    }
    at += c.size;
  }
  add_gap(out, done, text.size(), false);
}

/// Rewrites every piece that is not a token yet: put(out, text of the piece, the piece) appends the new text
/// and returns how much of it counts as coming from the first character.
template <class F>
void rewrite_pieces(pieces& text, F&& put) {
  std::string out;
  out.reserve(text.text.size() * 2);
  for (auto& p : text.list) {
    if (p.id != piece::to_encode)
      continue;
    check_work_limit();
    const auto begin = out.size();
    p.from_first = put(out, text.view(p), p);
    p.begin = begin;
    p.end = out.size();
  }
  text.text = std::move(out);
}

class split final : public pre_tokenizer {
 public:
  split(regex pattern, split_behavior behavior, bool inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), inverted_(inverted) {}

  void apply(pieces& text) const override {
    cut_pieces(text, behavior_, [&](std::string_view view, std::vector<stretch>& out) {
      find_stretches(pattern_, view, inverted_, out);
    });
  }

  bool keeps_all() const override { return behavior_ != split_behavior::removed; }

 private:
  regex pattern_;
  split_behavior behavior_;
  bool inverted_;
};

class byte_level_split final : public pre_tokenizer {
 public:
  byte_level_split(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex)
      pattern_ = regex::from_pattern(gpt2_pattern);
  }

  void apply(pieces& text) const override {
    if (add_prefix_space_) {
      rewrite_pieces(text, [](std::string& out, std::string_view view, const piece& p) {
        const bool spaced = view.starts_with(' ');
        out += spaced ? "" : " ";
        out += view;
        return p.from_first == 0 || spaced ? p.from_first : p.from_first + 1;
      });
    }
    if (pattern_) {
      cut_pieces(text, split_behavior::isolated, [&](std::string_view view, std::vector<stretch>& out) {
        find_stretches(*pattern_, view, false, out);
      });
    }
    rewrite_pieces(text, [](std::string& out, std::string_view view, const piece& p) {
      const auto begin = out.size();
      append_byte_level(out, view.substr(0, p.from_first));
      const auto from_first = out.size() - begin;
      append_byte_level(out, view.substr(p.from_first));
      return from_first;
    });
  }

  bool keeps_all() const override { return true; }

  bool is_byte_level() const override { return true; }

 private:
  bool add_prefix_space_;
  std::optional<regex> pattern_;
};

class metaspace final : public pre_tokenizer {
 public:
  enum class prefix { always, first, never };

  metaspace(char32_t replacement, prefix scheme, bool cut)
      : scheme_(scheme), cut_(cut), character_(replacement) {
    append_utf8(replacement_, replacement);
  }

  void apply(pieces& text) const override {
    rewrite_pieces(text, [&](std::string& out, std::string_view view, const piece& p) {
      const auto begin = out.size();
      const bool marked = view.starts_with(' ') || view.starts_with(replacement_);
      const bool prefixed =
          !marked && (scheme_ == prefix::always || (scheme_ == prefix::first && p.from_first > 0));
      if (prefixed)
        out += replacement_;
      std::size_t from_first = 0;
      for (std::size_t at = 0; at < view.size(); ++at) {
        if (view[at] == ' ')
          out += replacement_;
        else
          out += view[at];
        if (at < p.from_first)
          from_first = out.size() - begin;
      }
      return from_first;
    });
    if (cut_) {
      cut_pieces(text, split_behavior::merged_with_next,
                 [&](std::string_view view, std::vector<stretch>& out) {
                   find_characters(
                       view, [&](char32_t c) { return c == character_; }, out);
                 });
    }
  }

  bool keeps_all() const override { return true; }

 private:
  prefix scheme_;
  bool cut_;
  char32_t character_;
  std::string replacement_;
};

/// Cuts at single characters of a kind.
class character_split final : public pre_tokenizer {
 public:
  character_split(bool (*matches)(char32_t) noexcept, split_behavior behavior)
      : matches_(matches), behavior_(behavior) {}

  void apply(pieces& text) const override {
    cut_pieces(text, behavior_, [&](std::string_view view, std::vector<stretch>& out) {
      find_characters(view, matches_, out);
    });
  }

  bool keeps_all() const override { return behavior_ != split_behavior::removed; }

 private:
  bool (*matches_)(char32_t) noexcept;
  split_behavior behavior_;
};

/// Separates runs of word characters from runs of characters that are neither word nor blank; removes blanks.
class whitespace final : public pre_tokenizer {
  void apply(pieces& text) const override {
    cut_pieces(text, split_behavior::removed, [](std::string_view view, std::vector<stretch>& out) {
      enum class kind { blank, word, other };
      const auto kind_of = [](char32_t c) {
        return is_word(c) ? kind::word : is_whitespace(c) ? kind::blank : kind::other;
      };
      auto current = kind::blank;
      for (std::size_t at = 0; at < view.size();) {
        const auto c = decode_at(view, at);
        const auto next = kind_of(c.value);
        if (next == current && !out.empty())
          out.back().end = at + c.size;
        else
          out.push_back({at, at + c.size, next == kind::blank});
        current = next;
        at += c.size;
      }
    });
  }

  bool keeps_all() const override { return false; }
};

class split_sequence final : public pre_tokenizer {
 public:
  explicit split_sequence(const json_view& list) {
    for (std::size_t i = 0; i < list.array_size(); ++i)
      steps_.push_back(make_pre_tokenizer(list.item(i)));
  }

  explicit split_sequence(std::vector<std::unique_ptr<const pre_tokenizer>> steps)
      : steps_(std::move(steps)) {}

  void apply(pieces& text) const override {
    for (const auto& step : steps_)
      step->apply(text);
  }

  bool keeps_all() const override {
    return std::all_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->keeps_all(); });
  }

  bool is_byte_level() const override {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->is_byte_level(); });
  }

 private:
  std::vector<std::unique_ptr<const pre_tokenizer>> steps_;
};

std::unique_ptr<const pre_tokenizer> make_metaspace(const json_view& json) {
  const auto replacement = json.at("replacement");
  const auto& text = replacement.string();
  if (text.empty() || utf8_size(text.front()) != text.size())
    replacement.fail("one character is expected");
  const auto name = json.string_or("prepend_scheme", "always");
  auto scheme = metaspace::prefix::always;
  if (name == "first")
    scheme = metaspace::prefix::first;
  else if (name == "never")
    scheme = metaspace::prefix::never;
  else if (name != "always")
    json.at("prepend_scheme").fail("prepend scheme '" + name + "' is not supported");
  if (!json.boolean_or("add_prefix_space", true)) { // files older than the schemes
    if (json.has("prepend_scheme") && scheme != metaspace::prefix::never)
      json.at("add_prefix_space").fail("false contradicts prepend_scheme '" + name + "'");
    scheme = metaspace::prefix::never;
  }
  return std::make_unique<metaspace>(decode_at(text, 0).value, scheme, json.boolean_or("split", true));
}

} // namespace

std::unique_ptr<const pre_tokenizer> make_pre_tokenizer(const json_view& json) {
  const auto& type = json.at("type").string();
  if (type == "Sequence")
    return std::make_unique<split_sequence>(json.at("pretokenizers"));
  if (type == "ByteLevel") {
    return std::make_unique<byte_level_split>(json.at("add_prefix_space").boolean(),
                                              json.boolean_or("use_regex", true));
  }
  if (type == "Split") {
    return std::make_unique<split>(read_pattern(json.at("pattern")), read_split_behavior(json.at("behavior")),
                                   json.at("invert").boolean());
  }
  if (type == "Metaspace")
    return make_metaspace(json);
  if (type == "Digits") {
    return std::make_unique<character_split>(is_numeric, json.boolean_or("individual_digits", false)
                                                             ? split_behavior::isolated
                                                             : split_behavior::contiguous);
  }
  if (type == "Punctuation") {
    return std::make_unique<character_split>(is_punctuation, json.has("behavior")
                                                                 ? read_split_behavior(json.at("behavior"))
                                                                 : split_behavior::isolated);
  }
  if (type == "WhitespaceSplit")
    return std::make_unique<character_split>(is_whitespace, split_behavior::removed);
  if (type == "Whitespace")
    return std::make_unique<whitespace>();
  json.fail("pre-tokenizer type '" + type + "' is not supported");
}

std::unique_ptr<const pre_tokenizer> make_sequence(std::vector<std::unique_ptr<const pre_tokenizer>> steps) {
  return std::make_unique<split_sequence>(std::move(steps));
}

} // namespace troupe::text
