#include "services/gateway/text/regex_class.hpp"

#include "services/gateway/text/regex_characters.hpp"

#include <utility>

namespace troupe::text {

std::string regex_class_reader::char_set::as_pattern() const {
  std::string any = items.empty() ? std::string() : "[" + items + "]";
  for (const auto& p : patterns)
    any += (any.empty() ? "" : "|") + p;
  if (any.empty())
    any = "(?!)";
  if (!negated)
    return any;
  return patterns.empty() && !items.empty() ? "[^" + items + "]"
                                            : "(?!" + any + ")" + std::string(any_character);
}

regex_class_reader::char_set regex_class_reader::read_class(int depth) {
  if (depth > max_nesting)
    refuse("too deeply nested");
  bool negated = false;
  if (next_is("^")) {
    ++at_;
    negated = true;
  }
  char_set current;
  std::vector<char_set> intersected;
  for (bool first = true;; first = false) {
    if (!more())
      refuse("unclosed class");
    if (source_[at_] == ']' && !first) {
      ++at_;
      break;
    }
    if (next_is("&&")) {
      at_ += 2;
      intersected.push_back(std::exchange(current, {}));
    } else if (next_is("[:")) {
      refuse("POSIX brackets are not supported");
    } else if (source_[at_] == '[') {
      ++at_;
      const auto inner = read_class(depth + 1);
      if (!inner.negated && inner.patterns.empty())
        current.items += inner.items;
      else
        current.patterns.push_back("(?:" + inner.as_pattern() + ")");
    } else {
      class_item(current);
    }
  }
  if (!intersected.empty()) {
    std::string all;
    for (const auto& part : intersected)
      all += "(?=" + part.as_pattern() + ")";
    all += "(?:" + current.as_pattern() + ")";
    current = {{}, {all}, false};
  }
  current.negated = negated;
  return current;
}

// Reads \s and similar at the cursor; returns false when something else is there.
bool regex_class_reader::class_shorthand(char_set& set) {
  constexpr std::string_view shorthands = "sSwWdDhHpP";
  if (source_[at_] != '\\' || at_ + 1 == source_.size()
      || shorthands.find(source_[at_ + 1]) == std::string_view::npos)
    return false;
  const char c = source_[at_ + 1];
  at_ += 2;
  switch (c) {
  case 's':
    set.items += space_items;
    break;
  case 'S':
    set.items += non_space_items;
    break;
  case 'w':
    set.items += word_items();
    break;
  case 'W':
    set.patterns.push_back("[^" + word_items() + "]");
    break;
  case 'd':
    set.items += property_items("Nd");
    break;
  case 'D':
    set.patterns.push_back("[^" + property_items("Nd") + "]");
    break;
  case 'h':
    set.items += "0-9a-fA-F";
    break;
  case 'H':
    set.patterns.emplace_back("[^0-9a-fA-F]");
    break;
  default:
    if (const auto [items, negated] = property(c); negated)
      set.patterns.push_back("[^" + items + "]");
    else
      set.items += items;
    break;
  }
  return true;
}

void regex_class_reader::class_item(char_set& set) {
  if (class_shorthand(set))
    return;
  const auto low = class_character();
  set.items += hex_escape(low);
  if (next_is("-") && at_ + 1 < source_.size() && source_[at_ + 1] != ']' && source_[at_ + 1] != '[') {
    ++at_;
    const auto high = class_character();
    if (high < low)
      refuse("empty range");
    set.items += "-" + hex_escape(high);
  }
}

char32_t regex_class_reader::class_character() {
  if (source_[at_] == '\\') {
    ++at_;
    return next_is("b") ? (++at_, U'\b') : escaped_character();
  }
  return take_character().value;
}

} // namespace troupe::text
