#include "actors/scheduler/hang_policy.hpp"

#include <algorithm>
#include <variant>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

/// The role whose answers a worker of this role waits for; none for expert hosts.
std::optional<worker_role> served_by(worker_role role) {
  switch (role) {
  case worker_role::gateway:
    return worker_role::attention;
  case worker_role::attention:
    return worker_role::expert;
  case worker_role::expert:
    break;
  }
  return std::nullopt;
}

std::chrono::milliseconds limit_of(const engine_progress& engine) {
  return std::max<std::chrono::milliseconds>(defaults::engine_stall,
                                             std::chrono::milliseconds{engine.step_limit_ms});
}

/// The complaints of one worker.
struct silence {
  std::size_t complaining = 0;
  std::chrono::milliseconds longest{0};
};

} // namespace

std::string seconds_text(std::uint64_t milliseconds) {
  const auto tenths = milliseconds / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

void hang_policy::joined(const worker_hello& hello, time_point now) {
  members_[hello.address.id] = {hello.address.role, false, hello.engine, now, {}};
}

void hang_policy::renewed(const lease_renewal& load, time_point now) {
  const auto found = members_.find(load.id);
  if (found == members_.end())
    return;
  auto& entry = found->second;
  const auto* attention = std::get_if<attention_load>(&load.of_role);
  const auto* gateway = std::get_if<gateway_load>(&load.of_role);
  if (load.engine.steps != entry.engine.steps || (attention != nullptr && attention->at_experts > 0))
    entry.progress = now;
  entry.has_renewed = true;
  entry.engine = load.engine;
  entry.complaints.clear();
  if (attention != nullptr)
    entry.complaints = attention->complaints;
  else if (gateway != nullptr)
    entry.complaints = gateway->complaints;
}

void hang_policy::extend(time_point::duration by, time_point now) {
  for (auto& [id, entry] : members_)
    entry.progress = std::min(entry.progress + by, now);
}

std::size_t hang_policy::count(worker_role role, bool has_renewed) const {
  return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.role == role && (!has_renewed || entry.second.has_renewed);
  }));
}

std::optional<hang_policy::accusation>
hang_policy::next(time_point now, const std::function<bool(worker_id)>& is_replaceable) {
  if (last_ && now - *last_ < defaults::lease)
    return std::nullopt;
  std::map<worker_id, silence> silences;
  for (const auto& [id, entry] : members_) {
    const auto accused_role = served_by(entry.role);
    if (!accused_role || entry.complaints.empty())
      continue;
    const auto num_workers = count(*accused_role, false);
    if (num_workers > 1 && 2 * entry.complaints.size() > num_workers)
      continue;
    for (const auto& [about, silent_ms] : entry.complaints) {
      const auto accused = members_.find(about);
      const std::chrono::milliseconds silent{silent_ms};
      if (accused == members_.end() || accused->second.role != *accused_role
          || silent < limit_of(accused->second.engine))
        continue;
      auto& known = silences[about];
      ++known.complaining;
      known.longest = std::max(known.longest, silent);
    }
  }
  for (const auto& [id, known] : silences) {
    const auto& accused = members_.at(id);
    const auto limit = limit_of(accused.engine);
    const auto by = accused.role == worker_role::expert ? worker_role::attention : worker_role::gateway;
    const auto could_complain = count(by, true);
    const auto is_enough =
        2 * known.complaining >= could_complain || known.longest >= defaults::lone_complaint_factor * limit;
    if (!is_enough || now - accused.progress < limit || !is_replaceable(id))
      continue;
    last_ = now;
    return accusation{id, "has answered nothing for "
                              + seconds_text(static_cast<std::uint64_t>(known.longest.count())) + ", say "
                              + std::to_string(known.complaining) + " of " + std::to_string(could_complain)
                              + " " + to_string(by) + (by == worker_role::gateway ? " processes" : " workers")
                              + ", and its engine has given no step back"};
  }
  return std::nullopt;
}

} // namespace troupe
