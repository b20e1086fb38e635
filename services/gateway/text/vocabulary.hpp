// A table of a model's entries: string to id, and id to string.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::text {

/// Lets string-keyed tables be searched by string_view.
struct string_hash {
  using is_transparent = void;

  std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
};

template <class Value>
using string_map = std::unordered_map<std::string, Value, string_hash, std::equal_to<>>;

class vocabulary {
 public:
  void reserve(std::size_t entries) { ids_.reserve(entries); }

  /// Adds an entry and returns true; if the string or the id exists already, changes nothing and returns
  /// false.
  bool add(std::string token, std::int32_t id) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens_.size())
      tokens_.resize(index + 1);
    if (tokens_[index].has_value() || !ids_.emplace(token, id).second)
      return false;
    tokens_[index] = std::move(token);
    return true;
  }

  std::optional<std::int32_t> id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Null for an id without an entry.
  const std::string* token_of(std::int32_t id) const noexcept {
    const auto index = static_cast<std::size_t>(id);
    return id >= 0 && index < tokens_.size() && tokens_[index] ? &*tokens_[index] : nullptr;
  }

  std::size_t size() const noexcept { return ids_.size(); }

  /// The length of the longest entry, measured by `length_of`.
  template <class F>
  std::size_t longest(F&& length_of) const {
    std::size_t most = 0;
    for (const auto& [token, id] : ids_)
      most = std::max(most, static_cast<std::size_t>(length_of(std::string_view(token))));
    return most;
  }

  std::int32_t end_id() const noexcept { return static_cast<std::int32_t>(tokens_.size()); }

 private:
  string_map<std::int32_t> ids_;
  std::vector<std::optional<std::string>> tokens_;
};

} // namespace troupe::text
