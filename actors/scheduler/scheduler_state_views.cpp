// scheduler_state: what attention workers and gateways are sent of the cluster.
#include <cassert>

#include <caf/send.hpp>

#include "actors/cluster/view_change.hpp"
#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

void scheduler_state::broadcast() {
  [[maybe_unused]] const auto misfit = apply(published_, *next_.with_layers);
  assert(misfit == view_misfit::none);
  whole_.reset();
  if (config_.metrics)
    config_.metrics->on_published(published_.experts, published_.ready);
  const auto for_attention = caf::make_message(next_.with_layers);
  const auto for_gateways = caf::make_message(next_.without_layers);
  // Expert hosts have no use for it: they go by their orders, which carry the term.
  for (const auto& [id, entry] : contacts_)
    if (const auto role = members_.find(id)->hello.address.role; role != worker_role::expert)
      caf::anon_send(caf::actor_cast<caf::actor>(entry.member),
                     role == worker_role::attention ? for_attention : for_gateways);
}

shared_view_change scheduler_state::whole_view_of(worker_role role) {
  if (role == worker_role::expert)
    return {};
  if (!whole_)
    whole_ = whole_view(published_);
  return whole_->of(role);
}

caf::result<shared_view_change> scheduler_state::view_of(worker_id id) {
  const auto* member = members_.find(id);
  if (member == nullptr)
    return make_error(ec::not_ready, "a worker that is not here joins before it is sent a view");
  event("view-missed", described(member->hello.address) + " asks for the whole view");
  return whole_view_of(member->hello.address.role);
}

} // namespace troupe
