#include "actors/scheduler/hosting_table.hpp"

#include <algorithm>
#include <tuple>

namespace troupe {

namespace {

auto position(hosting_table::host_list& list, worker_id id) {
  return std::lower_bound(list.begin(), list.end(), id,
                          [](const hosting_table::host* l, worker_id r) { return l->id < r; });
}

} // namespace

hosting_table::hosting_table(std::vector<std::uint32_t> layer_experts)
    : layer_experts_(std::move(layer_experts)),
      members_(layer_experts_.size()),
      num_placed_(layer_experts_.size()),
      num_pinned_(layer_experts_.size()) {
  for (std::uint32_t layer = 0; layer < num_layers(); ++layer) {
    first_.push_back(first_.back() + layer_experts_[layer]);
    experts_.resize(first_.back(), expert_entry{layer, false, false, {}});
  }
  num_unplaced_ = num_experts();
}

hosting_table::host& hosting_table::add_host(worker_id id, std::uint64_t max_experts,
                                             const std::string& topology) {
  auto& entry = hosts_[id];
  entry.counts.resize(num_layers());
  unlist_by_total(entry);
  entry.id = id;
  entry.max_experts = max_experts;
  entry.place = 0;
  if (!topology.empty())
    entry.place = places_.try_emplace(topology, static_cast<std::uint32_t>(places_.size() + 1)).first->second;
  hosts_with_room_.resize(places_.size() + 1);
  list_by_total(entry);
  return entry;
}

std::vector<std::uint32_t> hosting_table::remove_host(worker_id id) {
  auto found = hosts_.find(id);
  if (found == hosts_.end())
    return {};
  std::vector<std::uint32_t> held{found->second.experts.begin(), found->second.experts.end()};
  for (auto expert : held)
    remove(expert, found->second);
  unlist_by_total(found->second);
  hosts_.erase(found);
  return held;
}

hosting_table::host* hosting_table::find(worker_id id) {
  auto found = hosts_.find(id);
  return found == hosts_.end() ? nullptr : &found->second;
}

const hosting_table::host* hosting_table::find(worker_id id) const {
  auto found = hosts_.find(id);
  return found == hosts_.end() ? nullptr : &found->second;
}

hosting_table::host* hosting_table::least_outside(std::uint32_t layer) const {
  for (const auto& [key, entry] : with_room_)
    if (entry->counts[layer] == 0)
      return entry;
  return nullptr;
}

hosting_table::host* hosting_table::least_apart(std::uint32_t expert, const host* leaving) const {
  if (!may_be_apart(expert, leaving))
    return nullptr;
  const auto layer = layer_of(expert);
  const auto key = [layer](const host* at) { return std::tuple{at->counts[layer], at->total}; };
  host* best = nullptr;
  for (const auto& [total, entry] : with_room_)
    if (!holds(*entry, expert) && is_apart(expert, *entry, leaving)
        && (best == nullptr || key(entry) < key(best)))
      best = entry;
  return best;
}

bool hosting_table::may_be_apart(std::uint32_t expert, const host* leaving) const {
  if (hosts_with_room_[0] > 0)
    return true;
  std::set<std::uint32_t> taken;
  for (const auto* other : experts_[expert].hosts)
    if (other != leaving && hosts_with_room_[other->place] > 0)
      taken.insert(other->place);
  return taken.size() < num_places_with_room_;
}

bool hosting_table::is_apart(std::uint32_t expert, const host& at, const host* leaving) const {
  const auto& list = experts_[expert].hosts;
  return at.place == 0 || std::none_of(list.begin(), list.end(), [&](const host* other) {
           return other != &at && other != leaving && other->place == at.place;
         });
}

bool hosting_table::holds(const host& at, std::uint32_t expert) const {
  const auto& list = experts_[expert].hosts;
  return std::find(list.begin(), list.end(), &at) != list.end();
}

void hosting_table::list_by_total(host& of) {
  if (of.has_room() && with_room_.emplace(std::pair{of.total, of.id}, &of).second
      && ++hosts_with_room_[of.place] == 1 && of.place != 0)
    ++num_places_with_room_;
}

void hosting_table::unlist_by_total(host& of) {
  if (with_room_.erase({of.total, of.id}) > 0 && --hosts_with_room_[of.place] == 0 && of.place != 0)
    --num_places_with_room_;
}

void hosting_table::pin(std::uint32_t expert, bool pinned) {
  auto& entry = experts_[expert];
  num_pinned_[entry.layer] += (pinned ? 1U : 0U) - (entry.pinned ? 1U : 0U);
  entry.pinned = pinned;
}

void hosting_table::add(std::uint32_t expert, host& to) {
  auto& entry = experts_[expert];
  entry.hosts.insert(position(entry.hosts, to.id), &to);
  num_unplaced_ -= entry.hosts.size() == 1 ? 1 : 0;
  num_replicated_ += entry.hosts.size() == 2 ? 1 : 0;
  unlist_by_total(to);
  ++to.total;
  list_by_total(to);
  to.experts.insert(expert);
  if (to.counts[entry.layer]++ == 0) {
    auto& members = members_[entry.layer];
    members.insert(position(members, to.id), &to);
  }
  ++num_placed_[entry.layer];
  ++total_placed_;
  if (!std::exchange(entry.touched, true))
    touched_.push_back(expert);
}

void hosting_table::remove(std::uint32_t expert, host& from) {
  auto& entry = experts_[expert];
  entry.hosts.erase(position(entry.hosts, from.id));
  num_unplaced_ += entry.hosts.empty() ? 1 : 0;
  num_replicated_ -= entry.hosts.size() == 1 ? 1 : 0;
  unlist_by_total(from);
  --from.total;
  list_by_total(from);
  from.experts.erase(expert);
  if (--from.counts[entry.layer] == 0) {
    auto& members = members_[entry.layer];
    members.erase(position(members, from.id));
  }
  --num_placed_[entry.layer];
  --total_placed_;
  if (!std::exchange(entry.touched, true))
    touched_.push_back(expert);
}

std::vector<std::uint32_t> hosting_table::take_touched() {
  auto result = std::exchange(touched_, {});
  for (auto expert : result)
    experts_[expert].touched = false;
  std::sort(result.begin(), result.end());
  return result;
}

} // namespace troupe
