#include "services/gateway/text/regex_syntax.hpp"

#include "services/gateway/text/regex_characters.hpp"
#include "services/gateway/text/regex_class.hpp"

#include <cctype>
#include <optional>
#include <string>

namespace troupe::text {

namespace {

class translator : regex_class_reader {
 public:
  using regex_class_reader::regex_class_reader;

  std::string run() {
    std::string out = sequence(0);
    if (at_ < source_.size())
      refuse("unmatched ')'");
    return out;
  }

 private:
  // Reads alternatives up to a closing parenthesis or the end.
  std::string sequence(int depth) {
    if (depth > max_nesting)
      refuse("too deeply nested");
    std::string out;
    while (more() && source_[at_] != ')') {
      if (source_[at_] == '|') {
        out += take();
        continue;
      }
      const std::string atom = one_atom(depth);
      out += quantified(atom);
    }
    return out;
  }

  std::string one_atom(int depth) {
    switch (source_[at_]) {
    case '(':
      return group(depth);
    case '[':
      ++at_;
      return "(?:" + character_class(depth + 1) + ")";
    case '\\':
      return escape();
    case '^':
    case '$':
    case '.':
      return {take()};
    case '*':
    case '+':
    case '?':
      refuse("nothing to repeat");
    case '{':
      ++at_;
      return R"(\{)";
    default:
      return hex_escape(take_character().value);
    }
  }

  std::string group(int depth) {
    ++at_;
    std::string out = "(";
    if (next_is("?")) {
      if (next_is("?#")) {
        const auto end = source_.find(')', at_);
        if (end == std::string_view::npos)
          refuse("unclosed comment");
        at_ = end + 1;
        return "(?:)";
      }
      if (next_is("?~"))
        refuse("absent groups are not supported");
      out += group_opening();
      if (out.back() == ')')
        return out;
    }
    out += sequence(depth + 1);
    if (take() != ')')
      refuse("')' is expected");
    return out + ")";
  }

  // Reads what follows '(' in a special group, up to the start of its pattern; the result ends with ')' for
  // an option change without a pattern.
  std::string group_opening() {
    for (const std::string_view fixed : {"?:", "?=", "?!", "?<=", "?<!", "?>"}) {
      if (next_is(fixed)) {
        at_ += fixed.size();
        return std::string(fixed);
      }
    }
    if (next_is("?<") || next_is("?'")) {
      ++at_;
      return "?" + bracketed_name();
    }
    std::string out(1, take()); // '?'
    while (more() && source_[at_] != ':' && source_[at_] != ')') {
      const char option = take();
      if (option != 'i' && option != 'm' && option != '-') // x would change how the pattern is read
        refuse("group option is not supported");
      out += option == 'm' ? 's' : option; // "dot matches newline": m in Oniguruma, s in PCRE2
    }
    out += take();
    return out;
  }

  std::string quantified(std::string atom) {
    while (more()) {
      const char c = source_[at_];
      if (c == '*' || c == '+' || c == '?') {
        atom += take();
        if (more() && (source_[at_] == '?' || source_[at_] == '+'))
          atom += take();
      } else if (c == '{') {
        const auto bounds = interval();
        if (!bounds)
          return atom;
        atom += *bounds;
        const bool fixed = bounds->find(',') == std::string::npos;
        if (more() && source_[at_] == '?') {
          ++at_;
          atom = fixed ? "(?:" + atom + ")?" : atom + "?";
        }
      } else {
        return atom;
      }
      atom =
          // In Oniguruma a second quantifier repeats the repetition; in PCRE2 it makes it possessive.
          "(?:" + atom + ")";
    }
    return atom;
  }

  // Reads "{n}", "{n,}", "{,m}" or "{n,m}" at the cursor. Otherwise reads nothing: the brace is literal.
  std::optional<std::string> interval() {
    const auto close = source_.find('}', at_);
    if (close == std::string_view::npos)
      return std::nullopt;
    const auto body = source_.substr(at_ + 1, close - at_ - 1);
    const auto comma = body.find(',');
    const auto is_digits = [](std::string_view text) {
      return text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    const auto low = body.substr(0, comma);
    const auto high = comma == std::string_view::npos ? std::string_view() : body.substr(comma + 1);
    if (body.empty() || body == "," || !is_digits(low) || !is_digits(high))
      return std::nullopt;
    at_ = close + 1;
    return "{" + std::string(low.empty() ? "0" : low)
           + (comma == std::string_view::npos ? std::string() : "," + std::string(high)) + "}";
  }

  std::string escape() {
    ++at_;
    const char c = take();
    std::string word = "[" + word_items() + "]";
    switch (c) {
    case 's':
      return "[" + std::string(space_items) + "]";
    case 'S':
      return "[^" + std::string(space_items) + "]";
    case 'w':
      return word;
    case 'W':
      return "[^" + word_items() + "]";
    case 'b':
      return "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
    case 'B':
      return "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
    case 'h':
      return "[0-9a-fA-F]";
    case 'H':
      return "[^0-9a-fA-F]";
    case 'd':
      return "[" + property_items("Nd") + "]";
    case 'D':
      return "[^" + property_items("Nd") + "]";
    case 'p':
    case 'P': {
      const auto [items, negated] = property(c);
      return (negated ? "[^" : "[") + items + "]";
    }
    case 'k':
      return "\\k" + bracketed_name();
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
    case 'R':
    case 'X':
    case 'K':
      return {'\\', c};
    default:
      if (std::isdigit(static_cast<unsigned char>(c)) != 0 && c != '0')
        return {'\\', c};
      --at_;
      return hex_escape(escaped_character());
    }
  }
};

} // namespace

std::string to_pcre2(std::string_view oniguruma) {
  return translator(oniguruma).run();
}

} // namespace troupe::text
