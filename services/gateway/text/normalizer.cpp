#include "services/gateway/text/normalizer.hpp"

#include "services/gateway/text/byte_alphabet.hpp"
#include "services/gateway/text/charsmap.hpp"
#include "services/gateway/text/pattern.hpp"
#include "services/gateway/text/regex.hpp"
#include "services/gateway/text/unicode.hpp"
#include "services/gateway/text/work_limit.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::text {

namespace {

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Rewrites `text` character by character: put(out, character) appends the replacement.
template <class F>
void rewrite_characters(std::string& text, std::size_t& from_first, F&& put) {
  std::string out;
  out.reserve(text.size());
  std::size_t first_part = 0;
  limited_steps steps(1024);
  for (std::size_t at = 0; at < text.size();) {
    steps.step();
    const auto c = decode_at(text, at);
    put(out, c.value);
    if (at < from_first)
      first_part = out.size();
    at += c.size;
  }
  from_first = first_part;
  text = std::move(out);
}

class unicode_form final : public normalizer {
 public:
  explicit unicode_form(normal_form form) : form_(form) {}

  void apply(std::string& text, std::size_t& from_first) const override {
    if (is_ascii(text)) // no form changes ASCII
      return;
    if (from_first > 0)
      from_first = normalized_size(text, from_first, form_);
    text = normalize(text, form_);
  }

  /// Mathematical letters become ASCII, and a Greek vowel of seven bytes becomes one of two. A test tries all
  /// characters.
  std::size_t most_shrinkage(bool& ascii) const override { return ascii ? 1 : 4; }

 private:
  normal_form form_;
};

class lowercase final : public normalizer {
  void apply(std::string& text, std::size_t& from_first) const override {
    rewrite_characters(text, from_first, append_lowercase);
  }

  /// KELVIN SIGN becomes k.
  std::size_t most_shrinkage(bool& ascii) const override { return ascii ? 1 : 3; }
};

class strip_accents final : public normalizer {
  void apply(std::string& text, std::size_t& from_first) const override {
    rewrite_characters(text, from_first, [](std::string& out, char32_t c) {
      if (!is_combining_mark(c))
        append_utf8(out, c);
    });
  }

  std::size_t most_shrinkage(bool& /*ascii*/) const override { return 0; }
};

/// The clean-up of SentencePiece's "nmt" rules: control characters go, unusual blanks become spaces.
class nmt final : public normalizer {
  void apply(std::string& text, std::size_t& from_first) const override {
    rewrite_characters(text, from_first, [](std::string& out, char32_t c) {
      const bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F
                           || c == 0x8F || c == 0x9F;
      const bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680
                         || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581
                         || c == 0xFEFF || c == 0xFFFD;
      if (!dropped)
        append_utf8(out, blank ? U' ' : c);
    });
  }

  std::size_t most_shrinkage(bool& /*ascii*/) const override { return 0; }
};

class strip final : public normalizer {
 public:
  strip(bool left, bool right) : left_(left), right_(right) {}

  void apply(std::string& text, std::size_t& from_first) const override {
    std::size_t begin = 0;
    while (left_ && begin < text.size()) {
      const auto c = decode_at(text, begin);
      if (!is_whitespace(c.value))
        break;
      begin += c.size;
    }
    std::size_t end = begin; // behind the last character to keep
    for (std::size_t at = begin; at < text.size();) {
      const auto c = decode_at(text, at);
      at += c.size;
      if (!right_ || !is_whitespace(c.value))
        end = at;
    }
    text = text.substr(begin, end - begin);
    from_first = std::min(from_first - std::min(begin, from_first), text.size());
  }

  std::size_t most_shrinkage(bool& /*ascii*/) const override { return 0; }

 private:
  bool left_;
  bool right_;
};

class prepend final : public normalizer {
 public:
  explicit prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  void apply(std::string& text, std::size_t& from_first) const override {
    if (!text.empty()) {
      text.insert(0, prefix_);
      from_first += from_first > 0 ? prefix_.size() : 0;
    }
  }

  std::size_t most_shrinkage(bool& ascii) const override {
    ascii = ascii && is_ascii(prefix_);
    return 1;
  }

 private:
  std::string prefix_;
};

class replace final : public normalizer {
 public:
  replace(regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(std::string& text, std::size_t& from_first) const override {
    if (from_first > 0)
      from_first = replaced_size(text, from_first);
    text = replace_all(pattern_, text, content_);
  }

  std::size_t most_shrinkage(bool& ascii) const override {
    const auto& literal = pattern_.literal();
    if (literal.empty() || content_.empty()) // an expression may match any number of bytes
      return 0;
    ascii = ascii && is_ascii(content_);
    return (literal.size() + content_.size() - 1) / content_.size();
  }

 private:
  /// How much of the result comes from the first `size` bytes of `text`. What is put in counts as coming
  /// from the last character that it stands for.
  std::size_t replaced_size(std::string_view text, std::size_t size) const {
    std::size_t out = 0;
    std::size_t done = 0;
    regex::cursor at;
    for (auto found = pattern_.next(text, at); found && found->begin < size;
         found = pattern_.next(text, at)) {
      out += found->begin - done;
      if (found->end > size)
        return out;
      out += content_.size();
      done = found->end;
    }
    return out + (size - done);
  }

  regex pattern_;
  std::string content_;
};

class precompiled final : public normalizer {
 public:
  explicit precompiled(charsmap map) : map_(std::move(map)) {}

  void apply(std::string& text, std::size_t& from_first) const override {
    result out{.text = {}, .from_first = 0};
    out.text.reserve(text.size());
    limited_steps steps(1024);
    for (std::size_t at = 0; at < text.size();) {
      steps.step();
      const auto size = grapheme_size(text, at);
      append_mapped(out, std::string_view(text).substr(at, size), from_first - std::min(at, from_first));
      at += size;
    }
    from_first = out.from_first;
    text = std::move(out.text);
  }

  /// Its map may remove characters.
  std::size_t most_shrinkage(bool& /*ascii*/) const override { return 0; }

 private:
  struct result {
    std::string text;
    std::size_t from_first;
  };

  // Short clusters may be mapped whole; otherwise each character by itself. The bound is Hugging Face's.
  void append_mapped(result& out, std::string_view cluster, std::size_t from_first) const {
    constexpr std::size_t whole_below = 6;
    if (cluster.size() < whole_below) {
      if (const auto mapped = map_.find(cluster)) {
        append_aligned(out, cluster, *mapped, from_first);
        return;
      }
    }
    while (!cluster.empty()) {
      const auto character = cluster.substr(0, utf8_size(cluster.front()));
      append_aligned(out, character, map_.find(character).value_or(character), from_first);
      cluster.remove_prefix(character.size());
      from_first -= std::min(from_first, character.size());
    }
  }

  /// Each replaced character corresponds to one of `from`; the rest of the replacement corresponds to the
  /// last.
  static void append_aligned(result& out, std::string_view from, std::string_view to,
                             std::size_t from_first) {
    for (std::size_t source = 0; !to.empty();) {
      const auto size = std::min(utf8_size(to.front()), to.size());
      out.text += to.substr(0, size);
      to.remove_prefix(size);
      if (source < from_first)
        out.from_first = out.text.size();
      const auto next = source + utf8_size(from[source]);
      source = next < from.size() ? next : source;
    }
  }

  charsmap map_;
};

class byte_level final : public normalizer {
  void apply(std::string& text, std::size_t& from_first) const override {
    std::string out;
    append_byte_level(out, std::string_view(text).substr(0, from_first));
    const auto first_part = out.size();
    append_byte_level(out, std::string_view(text).substr(from_first));
    from_first = first_part;
    text = std::move(out);
  }

  std::size_t most_shrinkage(bool& ascii) const override {
    ascii = false;
    return 1;
  }

  bool is_byte_level() const override { return true; }
};

class sequence final : public normalizer {
 public:
  explicit sequence(const json_view& list) {
    for (std::size_t i = 0; i < list.array_size(); ++i)
      steps_.push_back(make_normalizer(list.item(i)));
  }

  void apply(std::string& text, std::size_t& from_first) const override {
    for (const auto& step : steps_) {
      check_work_limit(); // each step may double the text
      step->apply(text, from_first);
    }
  }

  std::size_t most_shrinkage(bool& ascii) const override {
    constexpr std::size_t beyond_use = 1000;
    std::size_t most = 1;
    for (const auto& step : steps_)
      most = std::min(most * step->most_shrinkage(ascii), beyond_use);
    return most == beyond_use ? 0 : most;
  }

  /// Earlier steps may write other characters.
  bool is_byte_level() const override { return !steps_.empty() && steps_.back()->is_byte_level(); }

 private:
  std::vector<std::unique_ptr<const normalizer>> steps_;
};

} // namespace

std::unique_ptr<const normalizer> make_normalizer(const json_view& json) {
  const auto& type = json.at("type").string();
  if (type == "Sequence")
    return std::make_unique<sequence>(json.at("normalizers"));
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    return std::make_unique<unicode_form>(type == "NFC"    ? normal_form::nfc
                                          : type == "NFD"  ? normal_form::nfd
                                          : type == "NFKC" ? normal_form::nfkc
                                                           : normal_form::nfkd);
  }
  if (type == "Lowercase")
    return std::make_unique<lowercase>();
  if (type == "StripAccents")
    return std::make_unique<strip_accents>();
  if (type == "Nmt")
    return std::make_unique<nmt>();
  if (type == "Strip")
    return std::make_unique<strip>(json.at("strip_left").boolean(), json.at("strip_right").boolean());
  if (type == "Prepend")
    return std::make_unique<prepend>(json.at("prepend").string());
  if (type == "Replace")
    return std::make_unique<replace>(read_pattern(json.at("pattern")), json.at("content").string());
  if (type == "Precompiled") {
    const auto map = json.at("precompiled_charsmap");
    try {
      return std::make_unique<precompiled>(charsmap(map.string()));
    } catch (const text_error& e) {
      map.fail(e.what());
    }
  }
  if (type == "ByteLevel")
    return std::make_unique<byte_level>();
  json.fail("normalizer type '" + type + "' is not supported");
}

} // namespace troupe::text
