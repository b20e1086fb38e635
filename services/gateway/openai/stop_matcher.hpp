// Finds stop strings in text that arrives in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::openai {

/// Lets text through until a stop string is complete, and holds back what may still become the beginning of
/// one. The result does not depend on how the text is cut into pieces: the stop string that ends first wins,
/// the longest of those that end together.
///
/// One Knuth-Morris-Pratt automaton per stop string, so a byte costs at most one step per string.
class stop_matcher {
 public:
  explicit stop_matcher(const std::vector<std::string>& stops, bool include_stop = false);

  /// Takes the next text and returns what is certain now.
  /// @param may_stop  false: a stop string that ends in here does not count (`min_tokens`)
  std::string push(std::string_view text, bool may_stop = true);

  /// The text ends: returns what was held back.
  std::string flush();

  /// The stop string that was found; nothing is let through any more.
  const std::optional<std::string>& found() const noexcept { return found_; }

 private:
  struct automaton {
    std::string pattern;
    std::vector<size_t> fallback; ///< [i]: longest proper border of pattern[0..i]
    size_t matched = 0;
  };

  static void advance(automaton& machine, char byte);
  std::string release(size_t bytes);

  std::vector<automaton> machines_;
  bool include_stop_;
  std::string held_;
  std::optional<std::string> found_;
};

} // namespace troupe::openai
