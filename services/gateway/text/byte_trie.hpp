// A trie over bytes: maps strings to values and finds all of them at a place of a text.
#pragma once

#include "services/gateway/text/flat_map.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::text {

class byte_trie {
 public:
  static constexpr std::int32_t no_value = -1;

  byte_trie() { root_.fill(none); }

  /// The last value given to a string is kept. `key` must not be empty; `value` ≥ 0.
  void insert(std::string_view key, std::int32_t value) {
    std::uint32_t node = none;
    for (const char c : key) {
      auto next = node == none ? root_[byte(c)] : child(node, c);
      if (next == none) {
        next = static_cast<std::uint32_t>(values_.size());
        values_.push_back(no_value);
        if (node == none)
          root_[byte(c)] = next;
        else
          edges_.set(edge(node, c), next);
      }
      node = next;
    }
    values_[node] = value;
  }

  bool empty() const noexcept { return values_.empty(); }

  /// Calls found(length, value) for every string that starts at `at` in `text`, shortest first.
  template <class F>
  void for_each_prefix(std::string_view text, std::size_t at, F&& found) const {
    std::uint32_t node = none;
    for (std::size_t end = at; end < text.size(); ++end) {
      node = node == none ? root_[byte(text[end])] : child(node, text[end]);
      if (node == none)
        return;
      if (values_[node] != no_value)
        found(end + 1 - at, values_[node]);
    }
  }

  /// Whether any string starts with this byte.
  bool starts(char first) const noexcept { return root_[byte(first)] != none; }

 private:
  static constexpr std::uint32_t none = ~0U;

  static std::uint8_t byte(char c) noexcept { return static_cast<std::uint8_t>(c); }

  static std::uint64_t edge(std::uint32_t node, char c) noexcept {
    return (static_cast<std::uint64_t>(node) << 8U) | byte(c);
  }

  std::uint32_t child(std::uint32_t node, char c) const noexcept {
    const auto* next = edges_.find(edge(node, c));
    return next == nullptr ? none : *next;
  }

  std::array<std::uint32_t, 256> root_{};
  std::vector<std::int32_t> values_;
  flat_map<std::uint32_t> edges_;
};

} // namespace troupe::text
