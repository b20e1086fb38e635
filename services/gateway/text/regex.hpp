// Oniguruma regular expressions and literals of tokenizer.json, matched with PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// A match's place in a text, in bytes.
struct match_range {
  std::size_t begin;
  std::size_t end;
};

/// One compiled expression. Immutable and thread-safe.
class regex {
 public:
  /// Compiles an Oniguruma pattern.
  /// @throws text_error  the pattern is unusable; the text names no place
  static regex from_pattern(std::string_view oniguruma);
  /// Matches exactly this text, which is not empty.
  static regex from_literal(std::string literal);

  regex(regex&&) noexcept;
  regex& operator=(regex&&) noexcept;
  ~regex();

  /// The next match, in the order of Oniguruma's iteration: left to right, not overlapping, no empty match
  /// directly after another match. `cursor` starts default-constructed. `text` must be valid UTF-8 and stay
  /// the same.
  /// @throws text_error  the match limits are exceeded
  struct cursor {
    std::size_t from = 0;
    std::optional<std::size_t> last_end = std::nullopt;
  };

  std::optional<match_range> next(std::string_view text, cursor& at) const;

  /// The literal; for a pattern, empty.
  const std::string& literal() const noexcept { return literal_; }

 private:
  struct compiled;
  regex();

  std::optional<match_range> search(std::string_view text, std::size_t from) const;

  std::string literal_;
  std::unique_ptr<compiled> compiled_;
};

} // namespace troupe::text
