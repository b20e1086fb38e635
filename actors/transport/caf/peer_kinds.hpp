// Which messages peers of another version of the program cannot read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <caf/message.hpp>
#include <caf/uniform_type_info_map.hpp>

#include "actors/transport/wire/message_kind.hpp"

namespace troupe {

/// Names of those of `own` that a peer which knows `theirs` does not know, or knows in other versions only.
/// None where one of the two sides says nothing.
std::set<std::string> unreadable_kinds(const std::vector<wire::message_kind>& own,
                                       const std::vector<wire::message_kind>& theirs);

/// The peers that cannot read everything, by the token of their connection. Costs nothing while there are
/// none.
/// @threads any
class peer_kinds {
 public:
  void add(std::uint64_t token, std::set<std::string> unreadable);
  void remove(std::uint64_t token);

  /// Name of the first value of `content` that the peer cannot read, or empty.
  std::string unreadable_in(std::uint64_t token, const caf::message& content,
                            const caf::uniform_type_info_map& types) const;

 private:
  std::atomic<std::size_t> num_peers_{0};
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::set<std::string>> unreadable_;
};

/// Names of kinds that have arrived and that this process does not know, so that each is logged once.
/// Bounded: peers choose them.
class unknown_kinds {
 public:
  /// The kinds in `types`, "@<>+name+name" as CAF writes it, in plain text: what a log can show.
  static std::string readable(const std::string& types);

  /// True the first time; false when it has been told, or too many others have.
  bool is_news(const std::string& name);

 private:
  static constexpr std::size_t max_names = 64;
  std::set<std::string> told_;
};

} // namespace troupe
