#include "actors/attention/host_book.hpp"

#include <algorithm>
#include <tuple>

#include "actors/protocol/defaults.hpp"

namespace troupe {

void known_host::answered(std::uint64_t num_rows, std::uint64_t queued_rows, time_point now) {
  outstanding_rows -= num_rows;
  pause = {};
  others.heard(queued_rows, outstanding_rows, now);
}

void known_host::avoid(time_point now) {
  if (avoid_until > now)
    return;
  pause = std::clamp<std::chrono::milliseconds>(2 * pause, defaults::reconnect_min, defaults::reconnect_max);
  avoid_until = now + pause;
}

void known_host::contradict(std::uint32_t layer, std::uint64_t version, time_point now) {
  moved[layer] = {version, now + defaults::reconnect_max};
}

void known_host::disconnect(time_point now) {
  handle = nullptr;
  awaiting_handle.clear();
  silent_since.reset(); // a host that has ended owes nothing
  avoid(now);
}

bool host_book::update(const cluster_view& view) {
  if (std::tie(view.experts.term, view.experts.epoch) < std::tie(placement_.term, placement_.epoch))
    return false;
  placement_ = view.experts;
  for (auto& [id, host] : hosts_)
    host.in_view = false;
  for (const auto& address : view.workers)
    if (address.role == worker_role::expert) {
      auto& host = hosts_[address.id];
      host.address = address;
      host.in_view = true;
    }
  return true;
}

std::vector<worker_id> host_book::gone() const {
  std::vector<worker_id> result;
  for (const auto& [id, host] : hosts_)
    if (!host.in_view)
      result.push_back(id);
  return result;
}

void host_book::forget_gone() {
  std::erase_if(hosts_, [](const auto& entry) {
    return !entry.second.in_view && entry.second.outstanding_rows == 0 && !entry.second.resolving;
  });
}

known_host* host_book::find(worker_id host) {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? nullptr : &found->second;
}

std::optional<worker_id> host_book::host_with(const caf::actor_addr& address) const {
  for (const auto& [id, host] : hosts_)
    if (host.handle && host.handle.address() == address)
      return id;
  return std::nullopt;
}

dispatch_plan host_book::plan(std::span<const expert_entries> entries, std::uint32_t layer,
                              std::uint32_t num_topk, std::optional<worker_id> except, std::uint64_t salt,
                              time_point now) {
  static const layer_placement nowhere;
  const auto& where = layer < placement_.layers.size() ? *placement_.layers[layer] : nowhere;
  host_knowledge hosts;
  hosts.usable = [&](worker_id host) { return host != except && usable(host, layer, now); };
  hosts.ahead = [&](worker_id host) {
    const auto& entry = hosts_.at(host);
    return entry.outstanding_rows + entry.others.rows(now);
  };
  return plan_dispatch(entries, layer, num_topk, where, hosts, salt);
}

bool host_book::usable(worker_id host, std::uint32_t layer, time_point now) {
  auto* found = find(host);
  if (found == nullptr || !found->in_view || found->avoid_until > now)
    return false;
  const auto contradicted = found->moved.find(layer);
  if (contradicted == found->moved.end())
    return true;
  const auto [version, until] = contradicted->second;
  if (until > now && placement_.layers[layer]->version <= version)
    return false;
  found->moved.erase(contradicted);
  return true;
}

std::vector<complaint> host_book::complaints(time_point now) const {
  using std::chrono::milliseconds;
  std::vector<complaint> result;
  for (const auto& [id, host] : hosts_)
    if (host.in_view && host.silent_since && now - *host.silent_since > defaults::engine_stall) {
      const auto silent = std::chrono::duration_cast<milliseconds>(now - *host.silent_since);
      result.push_back({id, static_cast<std::uint64_t>(silent.count())});
    }
  return result;
}

} // namespace troupe
