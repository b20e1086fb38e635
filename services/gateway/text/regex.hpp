#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::text {

/// Where in a text something matched, in bytes.
struct match_range {
  std::size_t begin;
  std::size_t end;
};

/// A compiled regular expression or literal of tokenizer.json. Immutable and thread-safe.
class regex {
 public:
  /// An Oniguruma pattern. @throws text_error, without a place, when it cannot be used.
  static regex from_pattern(std::string_view oniguruma);
  /// Exactly this text, not empty.
  static regex from_literal(std::string literal);

  regex(regex&&) noexcept;
  regex& operator=(regex&&) noexcept;
  ~regex();

  /// The next match as Oniguruma's iteration finds them: left to right, not overlapping, an empty one not
  /// right after another. @p cursor starts default-constructed. @p text must be valid UTF-8 and stay the
  /// same.
  /// @throws text_error when the match limits are exceeded.
  struct cursor {
    std::size_t from = 0;
    std::optional<std::size_t> last_end = std::nullopt;
  };

  std::optional<match_range> next(std::string_view text, cursor& at) const;

  /// The literal, when this is one.
  const std::string& literal() const noexcept { return literal_; }

 private:
  struct compiled;
  regex();

  std::optional<match_range> search(std::string_view text, std::size_t from) const;

  std::string literal_;
  std::unique_ptr<compiled> compiled_;
};

} // namespace troupe::text
