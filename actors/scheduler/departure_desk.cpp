#include "actors/scheduler/departure_desk.hpp"

#include <utility>

#include "actors/protocol/error.hpp"

namespace troupe {

void departure_desk::begin(worker_id id, answer let_go) {
  if (auto found = waiting_.find(id); found != waiting_.end())
    found->second(make_error(ec::cancelled, "asked again"));
  waiting_[id] = std::move(let_go);
}

std::vector<worker_id> departure_desk::find(const std::function<bool(worker_id)>& may_go) const {
  std::vector<worker_id> result;
  for (const auto& [id, let_go] : waiting_)
    if (may_go(id))
      result.push_back(id);
  return result;
}

void departure_desk::removed(worker_id id) {
  if (auto found = waiting_.find(id); found != waiting_.end()) {
    found->second({});
    waiting_.erase(found);
  }
}

void departure_desk::shut_down(const caf::error& reason) {
  for (const auto& [id, let_go] : waiting_)
    let_go(reason);
  waiting_.clear();
}

} // namespace troupe
