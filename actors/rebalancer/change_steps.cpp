#include "actors/rebalancer/change_steps.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe {

namespace {

std::vector<worker_id> without(const std::vector<worker_id>& all, const std::vector<worker_id>& those) {
  std::vector<worker_id> result;
  std::set_difference(all.begin(), all.end(), those.begin(), those.end(), std::back_inserter(result));
  return result;
}

} // namespace

std::vector<worker_id> gaining_hosts(const placement_step& step) {
  return without(step.to, step.from);
}

change_steps::change_steps(std::vector<placement_step> steps, std::map<worker_id, std::uint64_t> room)
    : waiting_(std::make_move_iterator(steps.begin()), std::make_move_iterator(steps.end())),
      room_(std::move(room)) {}

bool change_steps::has_room(worker_id host) const {
  const auto found = room_.find(host);
  return found == room_.end() || found->second > 0;
}

std::vector<placement_step> change_steps::begin() {
  std::vector<placement_step> result;
  for (auto at = waiting_.begin(); at != waiting_.end() && in_flight_.size() < max_in_flight;) {
    const auto gains = without(at->to, at->from);
    const auto loses = without(at->from, at->to);
    const auto is_busy = [this](worker_id id) { return busy_.contains(id); };
    if (std::any_of(gains.begin(), gains.end(), is_busy) || std::any_of(loses.begin(), loses.end(), is_busy)
        || !std::all_of(gains.begin(), gains.end(), [this](worker_id id) { return has_room(id); })) {
      ++at;
      continue;
    }
    busy_.insert(gains.begin(), gains.end());
    busy_.insert(loses.begin(), loses.end());
    for (auto id : gains)
      if (auto found = room_.find(id); found != room_.end())
        --found->second;
    result.push_back(*at);
    in_flight_.emplace(at->expert, std::move(*at));
    at = waiting_.erase(at);
  }
  return result;
}

void change_steps::end(expert_id expert, bool is_done) {
  auto node = in_flight_.extract(expert);
  if (!node)
    return;
  const auto& step = node.mapped();
  const auto gains = without(step.to, step.from);
  const auto loses = without(step.from, step.to);
  for (const auto* hosts : {&gains, &loses})
    for (auto id : *hosts)
      busy_.erase(id);
  for (auto id : is_done ? loses : gains)
    if (auto found = room_.find(id); found != room_.end())
      ++found->second;
  ++(is_done ? num_done_ : num_given_up_);
}

void change_steps::give_up() {
  num_given_up_ += waiting_.size();
  waiting_.clear();
}

} // namespace troupe
