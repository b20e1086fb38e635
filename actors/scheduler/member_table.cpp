#include "actors/scheduler/member_table.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

std::string list(const std::vector<std::uint32_t>& numbers) {
  std::string result = "[";
  for (auto number : numbers)
    result += (result.size() > 1 ? " " : "") + std::to_string(number);
  return result + "]";
}

/// The arithmetic revision at the end of a numerics class, "r1"; empty where it has none.
std::string revision_of(const std::string& numerics_class) {
  const auto last = numerics_class.rfind("/r");
  if (last == std::string::npos
      || numerics_class.find_first_not_of("0123456789", last + 2) != std::string::npos)
    return {};
  return numerics_class.substr(last + 1);
}

} // namespace

std::string described(const worker_address& address) {
  return address.name + (address.endpoint.empty() ? "" : " at " + address.endpoint);
}

bool member_table::has_model() const {
  return std::any_of(members_.begin(), members_.end(), [](const auto& entry) {
    return entry.second.hello.address.role != worker_role::gateway;
  });
}

bool member_table::has_role(worker_role role) const {
  return std::any_of(members_.begin(), members_.end(),
                     [role](const auto& entry) { return entry.second.hello.address.role == role; });
}

bool member_table::is_foreign(const worker_hello& gateway) const {
  return has_model() && !gateway.config_id.empty() && !identity_.config_id.empty()
         && gateway.config_id != identity_.config_id;
}

std::vector<worker_id> member_table::foreign_gateways() const {
  std::vector<worker_id> result;
  for (const auto& [id, entry] : members_)
    if (entry.hello.address.role == worker_role::gateway && is_foreign(entry.hello))
      result.push_back(id);
  return result;
}

std::optional<worker_id> member_table::earlier_self(const worker_address& worker) const {
  for (const auto& [id, entry] : members_)
    if (id != worker.id && entry.hello.address.name == worker.name)
      return id;
  return std::nullopt;
}

caf::error member_table::check(const worker_hello& hello) const {
  const auto& name = hello.address.name;
  if (hello.address.id.value == 0 || name.empty())
    return make_error(ec::incompatible, "a worker without an id or a name cannot join");
  if (!is_of(hello.address.role, hello.of_role))
    return make_error(ec::incompatible, quoted(name) + " has the role " + to_string(hello.address.role)
                                            + " and says of it what this scheduler does not understand: "
                                              "workers with newer roles need a newer scheduler");
  for (const auto& [id, other] : members_)
    if (id != hello.address.id && other.hello.address.name == name
        && other.hello.address.endpoint != hello.address.endpoint)
      return make_error(ec::not_ready, "the name " + quoted(name) + " is taken by the worker at "
                                           + other.hello.address.endpoint + ", this one is at "
                                           + hello.address.endpoint);
  if (hello.address.role == worker_role::gateway && is_foreign(hello))
    return make_error(ec::incompatible,
                      quoted(name) + " has a config.json of another model (" + hello.config_id
                          + "; the cluster's is " + identity_.config_id
                          + "): give it the model folder of the workers, which may be without "
                            "weights");
  if (hello.address.role == worker_role::gateway || !has_model())
    return {};
  if (hello.fingerprint != identity_.fingerprint)
    return make_error(ec::incompatible, quoted(name) + " has the model " + quoted(hello.fingerprint)
                                            + ", the cluster has " + quoted(identity_.fingerprint));
  const auto role = hello.address.role;
  const auto& shared_class = identity_.numerics_class(role);
  if (has_role(role) && hello.numerics_class != shared_class && !allow_inexact_)
    return make_error(ec::incompatible, quoted(name) + " has the numerics class "
                                            + quoted(hello.numerics_class) + ", the " + to_string(role)
                                            + " workers of the cluster have " + quoted(shared_class));
  // Otherwise a running request would go on with other numbers once all workers of one role are new.
  const auto other = role == worker_role::expert ? worker_role::attention : worker_role::expert;
  const auto own_revision = revision_of(hello.numerics_class);
  const auto other_revision = revision_of(identity_.numerics_class(other));
  if (has_role(other) && own_revision != other_revision && !allow_inexact_)
    return make_error(ec::incompatible, quoted(name) + " has the arithmetic revision " + quoted(own_revision)
                                            + ", the " + to_string(other) + " workers of the cluster have "
                                            + quoted(other_revision)
                                            + ": run the new version as a second cluster");
  if (!hello.layer_experts.empty() && !identity_.layer_experts.empty()
      && hello.layer_experts != identity_.layer_experts)
    return make_error(ec::incompatible, quoted(name) + " has " + list(hello.layer_experts)
                                            + " experts by layer, the cluster has "
                                            + list(identity_.layer_experts));
  return {};
}

void member_table::join(worker_hello hello, time_point now) {
  if (hello.address.role != worker_role::gateway) {
    if (!has_model() && identity_.fingerprint != hello.fingerprint)
      identity_ = {hello.fingerprint, {}, {}, {}};
    if (!hello.config_id.empty())
      identity_.config_id = hello.config_id;
    if (!has_role(hello.address.role))
      identity_.numerics_class(hello.address.role) = hello.numerics_class;
    if (!hello.layer_experts.empty() && (!has_model() || identity_.layer_experts.empty()))
      identity_.layer_experts = hello.layer_experts;
  }
  auto& entry = members_[hello.address.id];
  entry.hello = std::move(hello);
  entry.load = {};
  entry.load.id = entry.hello.address.id;
  if (const auto* attention = std::get_if<attention_terms>(&entry.hello.of_role))
    entry.load.running = attention->running.size();
  entry.renewed = now;
  entry.leaving = false;
}

bool member_table::renew(lease_renewal load, time_point now) {
  auto found = members_.find(load.id);
  if (found == members_.end())
    return false;
  found->second.load = std::move(load);
  found->second.renewed = now;
  return true;
}

bool member_table::leave(worker_id id) {
  auto found = members_.find(id);
  if (found == members_.end())
    return false;
  found->second.leaving = true;
  return true;
}

void member_table::extend(time_point::duration by, time_point now) {
  for (auto& [id, entry] : members_)
    entry.renewed = std::min(entry.renewed + by, now);
}

std::vector<worker_id> member_table::expired(time_point now) const {
  std::vector<worker_id> result;
  for (const auto& [id, entry] : members_)
    if (now - entry.renewed > defaults::lease)
      result.push_back(id);
  return result;
}

const member_table::member* member_table::find(worker_id id) const {
  auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

std::vector<worker_status>
member_table::describe(time_point now, const std::function<std::vector<expert_id>(worker_id)>& hosted) const {
  std::vector<worker_status> result;
  for (const auto& [id, entry] : members_) {
    const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - entry.renewed);
    auto& status = result.emplace_back();
    status.address = entry.hello.address;
    status.load = entry.load;
    status.lease_age_ms = static_cast<std::uint64_t>(age.count());
    status.hosted = hosted(id);
    status.numerics_class = entry.hello.numerics_class;
    if (const auto* attention = std::get_if<attention_terms>(&entry.hello.of_role)) {
      status.max_num_seqs = attention->max_num_seqs;
      status.kv_capacity_tokens = attention->kv_capacity_tokens;
      status.max_model_len = attention->max_model_len;
    }
  }
  return result;
}

std::size_t member_table::count(worker_role role) const {
  return static_cast<std::size_t>(std::count_if(members_.begin(), members_.end(), [role](const auto& entry) {
    return entry.second.hello.address.role == role && !entry.second.leaving;
  }));
}

} // namespace troupe
