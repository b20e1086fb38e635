#include "actors/attention/attention_worker.hpp"

#include <memory>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_state.hpp"

namespace troupe {

namespace {

struct attention_worker_state {
  static inline const char* name = "attention_worker";
  std::unique_ptr<attention_state> serving;
};

local_attention_worker_actor::behavior_type
attention_worker(local_attention_worker_actor::stateful_pointer<attention_worker_state> self,
                 attention_worker_config config) {
  self->state.serving = std::make_unique<attention_state>(self, std::move(config));
  self->set_down_handler([self](const caf::down_msg& message) { self->state.serving->down(message.source); });
  return {
      [self](const generation_request& request) {
        self->state.serving->submit(request, self->current_sender());
      },
      [self](cancel_atom, const sequence_id& id, std::uint32_t attempt) {
        self->state.serving->cancel(id, attempt);
      },
      [self](const cluster_view& view) { self->state.serving->update(view); },
      [self](caf::join_atom) { return self->state.serving->hello(); },
      [self](load_atom) { return self->state.serving->load(); },
      [self](caf::get_atom) { return self->state.serving->counts(); },
      [self](const attention_done_ptr& done) { self->state.serving->step_done(*done); },
      [self](caf::tick_atom) { self->state.serving->tick(); },
      [self](status_atom) { return self->state.serving->status(); },
  };
}

} // namespace

local_attention_worker_actor spawn_attention_worker(caf::actor_system& system,
                                                    attention_worker_config config) {
  return system.spawn(attention_worker, std::move(config));
}

} // namespace troupe
