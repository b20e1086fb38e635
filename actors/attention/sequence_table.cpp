#include "actors/attention/sequence_table.hpp"

#include <utility>

namespace troupe {

bool sequence_table::add(key name, accepted_sequence added) {
  wanted_.insert_or_assign(added.tokens->id, name);
  const auto of_session = ++sessions_[added.session.address()];
  sequences_.emplace(name, std::move(added));
  return of_session == 1;
}

bool sequence_table::part(key name) {
  const auto& s = sequences_.at(name);
  wanted_.erase(s.tokens->id);
  const auto found = sessions_.find(s.session.address());
  if (found == sessions_.end() || --found->second > 0)
    return false;
  sessions_.erase(found);
  return true;
}

std::optional<sequence_table::key> sequence_table::find(const sequence_id& id) const {
  const auto found = wanted_.find(id);
  return found == wanted_.end() ? std::nullopt : std::optional{found->second};
}

std::vector<sequence_table::key> sequence_table::of_session(const caf::actor_addr& address) const {
  std::vector<key> result;
  for (const auto& [name, s] : sequences_)
    if (!s.cancelled && s.session.address() == address)
      result.push_back(name);
  return result;
}

} // namespace troupe
