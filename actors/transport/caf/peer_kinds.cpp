#include "actors/transport/caf/peer_kinds.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace troupe {

std::set<std::string> unreadable_kinds(const std::vector<wire::message_kind>& own,
                                       const std::vector<wire::message_kind>& theirs) {
  std::set<std::string> result;
  if (theirs.empty())
    return result;
  for (const auto& kind : own) {
    const auto known = std::find_if(theirs.begin(), theirs.end(),
                                    [&](const auto& other) { return other.name == kind.name; });
    if (known == theirs.end() || !known->versions.overlaps(kind.versions))
      result.insert(kind.name);
  }
  return result;
}

void peer_kinds::add(std::uint64_t token, std::set<std::string> unreadable) {
  if (unreadable.empty())
    return;
  std::lock_guard guard{mutex_};
  unreadable_[token] = std::move(unreadable);
  num_peers_.store(unreadable_.size(), std::memory_order_release);
}

void peer_kinds::remove(std::uint64_t token) {
  std::lock_guard guard{mutex_};
  unreadable_.erase(token);
  num_peers_.store(unreadable_.size(), std::memory_order_release);
}

std::string peer_kinds::unreadable_in(std::uint64_t token, const caf::message& content,
                                      const caf::uniform_type_info_map& types) const {
  if (num_peers_.load(std::memory_order_acquire) == 0)
    return {};
  std::lock_guard guard{mutex_};
  const auto found = unreadable_.find(token);
  if (found == unreadable_.end())
    return {};
  for (std::size_t i = 0; i < content.size(); ++i)
    if (const auto& name = types.portable_name(content.type(i)); found->second.contains(name))
      return name;
  return {};
}

std::string unknown_kinds::readable(const std::string& types) {
  constexpr std::string_view start = "@<>+";
  std::string result = types.starts_with(start) ? types.substr(start.size()) : types;
  constexpr std::size_t max_length = 200;
  result.resize(std::min(result.size(), max_length));
  for (auto& letter : result)
    if (std::isprint(static_cast<unsigned char>(letter)) == 0)
      letter = '?';
  return result;
}

bool unknown_kinds::is_news(const std::string& name) {
  return told_.size() < max_names && told_.insert(name).second;
}

} // namespace troupe
