// A cache of the ids of recent words.
#pragma once

#include "services/gateway/text/vocabulary.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::text {

/// Bounded: a full cache starts over. Not thread-safe.
class word_cache {
 public:
  /// Longer words seldom occur twice.
  static constexpr std::size_t longest_word = 64;

  /// Appends the ids of `word`, if known, to `ids`.
  bool append(std::string_view word, std::vector<std::int32_t>& ids) const {
    const auto found = entries_.find(word);
    if (found == entries_.end())
      return false;
    const auto begin = ids_.begin() + found->second.begin;
    ids.insert(ids.end(), begin, begin + found->second.count);
    return true;
  }

  void remember(std::string_view word, const std::int32_t* ids, std::size_t count) {
    if (entries_.size() >= most_words) {
      entries_.clear();
      ids_.clear();
    }
    entries_.emplace(word, span{static_cast<std::int32_t>(ids_.size()), static_cast<std::int32_t>(count)});
    ids_.insert(ids_.end(), ids, ids + count);
  }

 private:
  static constexpr std::size_t most_words = 1UL << 15U;

  struct span {
    std::int32_t begin;
    std::int32_t count;
  };

  string_map<span> entries_;
  std::vector<std::int32_t> ids_;
};

} // namespace troupe::text
