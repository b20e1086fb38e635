// expert_dispatcher: which expert hosts there are, how they are reached, and which of them to ask.
#include <algorithm>
#include <tuple>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/expert_dispatcher.hpp"
#include "actors/defaults.hpp"

namespace troupe {

void expert_dispatcher::update(const cluster_view& view) {
  if (std::tie(view.experts.term, view.experts.epoch) < std::tie(placement_.term, placement_.epoch))
    return;
  placement_ = view.experts;
  for (auto& [id, entry] : hosts_)
    entry.known = false;
  for (const auto& address : view.workers)
    if (address.role == worker_role::expert) {
      auto& entry = hosts_[address.id];
      entry.address = address;
      entry.known = true;
    }
  std::vector<worker_id> gone;
  for (const auto& [id, entry] : hosts_)
    if (!entry.known)
      gone.push_back(id);
  for (const auto id : gone)
    disconnect(id, make_error(ec::peer_down, hosts_[id].address.name + " has left the cluster"));
  std::erase_if(hosts_, [](const auto& entry) {
    return !entry.second.known && entry.second.outstanding_rows == 0 && !entry.second.resolving;
  });
  look_around();
}

bool expert_dispatcher::down(const caf::actor_addr& address) {
  for (auto& [id, entry] : hosts_)
    if (entry.handle && entry.handle.address() == address) {
      disconnect(id, make_error(ec::peer_down, entry.address.name + " is down"));
      return true;
    }
  return false;
}

void expert_dispatcher::resolve(known_host& entry) {
  if (entry.resolving)
    return;
  entry.resolving = true;
  const auto id = entry.address.id;
  const auto failed = [this, id](const caf::error& error) {
    hosts_.at(id).resolving = false;
    disconnect(id, error);
  };
  self_
      ->request(config_.directory, defaults::connect_timeout, caf::resolve_atom_v, entry.address.endpoint,
                entry.address.name)
      .then(
          [this, id, failed](const caf::strong_actor_ptr& found) {
            auto& host = hosts_.at(id);
            if (!found) {
              failed(make_error(ec::peer_down, host.address.name + " is not published"));
              return;
            }
            host.resolving = false;
            if (!host.known) {
              failed(make_error(ec::peer_down, host.address.name + " has left the cluster"));
              return;
            }
            host.handle = caf::actor_cast<expert_host_actor>(found);
            self_->monitor(host.handle);
            for (const auto number : std::exchange(host.awaiting_handle, {}))
              if (sent_.count(number) > 0)
                deliver(number, host);
          },
          failed);
}

void expert_dispatcher::disconnect(worker_id host, const caf::error& reason) {
  auto& entry = hosts_.at(host);
  if (entry.handle) {
    self_->demonitor(entry.handle.address());
    entry.handle = nullptr;
  }
  entry.awaiting_handle.clear();
  entry.silent_since.reset(); // whoever is gone is gone, and no longer silent
  avoid(entry);
  // A batch that a dead actor had accepted is never answered by CAF: its error is ours.
  std::vector<uint64_t> lost;
  for (const auto& [number, batch] : sent_)
    if (batch.host == host)
      lost.push_back(number);
  for (const auto number : lost)
    on_error(number, reason);
}

void expert_dispatcher::avoid(known_host& entry) {
  const auto now = self_->clock().now();
  if (entry.avoid_until > now)
    return; // several batches of one failure are one failure
  entry.pause = std::clamp<std::chrono::milliseconds>(2 * entry.pause, defaults::reconnect_min,
                                                      defaults::reconnect_max);
  entry.avoid_until = now + entry.pause;
}

bool expert_dispatcher::usable(worker_id host, uint32_t layer) {
  const auto found = hosts_.find(host);
  const auto now = self_->clock().now();
  if (found == hosts_.end() || !found->second.known || found->second.avoid_until > now)
    return false;
  auto& moved = found->second.moved;
  const auto contradicted = moved.find(layer);
  if (contradicted == moved.end())
    return true;
  const auto [version, until] = contradicted->second;
  if (until > now && placement_.layers[layer]->version <= version)
    return false;
  moved.erase(contradicted);
  return true;
}

} // namespace troupe
