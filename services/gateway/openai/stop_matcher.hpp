// Finds stop strings in text that arrives in pieces.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::openai {

/// Returns text up to the first complete stop string, and holds back text that may still become one. The
/// result does not depend on how the text is cut into pieces. The stop string that ends first wins, and of
/// those that end together the longest.
///
/// Uses one Knuth-Morris-Pratt automaton per stop string: a byte costs amortised one step per string.
class stop_matcher {
 public:
  explicit stop_matcher(const std::vector<std::string>& stops, bool include_stop = false);

  /// Adds the next text and returns what is final.
  /// @param may_stop  false: a stop string that ends in this text does not count (`min_tokens`)
  std::string push(std::string_view text, bool may_stop = true);

  /// Ends the text: returns what was held back.
  std::string flush();

  /// The stop string that was found; after it no text is returned.
  const std::optional<std::string>& found() const noexcept { return found_; }

 private:
  struct automaton {
    std::string pattern;
    std::vector<std::size_t> fallback; ///< [i]: longest proper border of pattern[0..i]
    std::size_t matched = 0;
  };

  static void advance(automaton& machine, char byte);
  std::string release(std::size_t bytes);

  std::vector<automaton> machines_;
  bool include_stop_;
  std::string held_;
  std::optional<std::string> found_;
};

} // namespace troupe::openai
