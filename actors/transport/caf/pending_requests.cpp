#include "actors/transport/caf/pending_requests.hpp"

#include <utility>

namespace troupe {

void pending_requests::add(request what) {
  const key where{what.requester->id(), what.response.integer_value()};
  std::lock_guard guard{mutex_};
  requests_.emplace(where, std::move(what));
}

caf::strong_actor_ptr pending_requests::take(caf::actor_id id, caf::message_id response) {
  std::lock_guard guard{mutex_};
  auto [i, end] = requests_.equal_range(key{id, response.integer_value()});
  for (; i != end; ++i) {
    if (i->second.foreign)
      continue;
    auto result = std::move(i->second.requester);
    requests_.erase(i);
    return result;
  }
  return nullptr;
}

bool pending_requests::remove(const caf::strong_actor_ptr& requester, caf::message_id response) {
  caf::strong_actor_ptr keep;
  std::lock_guard guard{mutex_};
  auto [i, end] = requests_.equal_range(key{requester->id(), response.integer_value()});
  for (; i != end; ++i) {
    if (i->second.requester != requester)
      continue;
    keep = std::move(i->second.requester);
    requests_.erase(i);
    return true;
  }
  return false;
}

template <class Predicate>
std::vector<pending_requests::request> pending_requests::extract_if(Predicate predicate) {
  std::vector<request> result;
  std::lock_guard guard{mutex_};
  for (auto i = requests_.begin(); i != requests_.end();) {
    if (predicate(i->second)) {
      result.push_back(std::move(i->second));
      i = requests_.erase(i);
    } else {
      ++i;
    }
  }
  return result;
}

std::vector<pending_requests::request> pending_requests::take_all(std::uint64_t token) {
  return extract_if([token](const request& x) { return x.token == token; });
}

std::vector<pending_requests::request> pending_requests::take_before(time_point then) {
  return extract_if([then](const request& x) { return x.since < then; });
}

std::size_t pending_requests::size() const {
  std::lock_guard guard{mutex_};
  return requests_.size();
}

} // namespace troupe
