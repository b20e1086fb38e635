// attention_state: timeline events of traced sequences and micro-batches.
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_state.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

using timeline::event_kind;

void attention_state::trace_wait(const accepted_sequence& s, time_point until) const {
  timeline::event waited{.kind = event_kind::sequence_wait, .begin_ns = timeline::ns_of(s.arrived)};
  waited.id = s.trace;
  waited.duration_ns = timeline::ns_of(until) - waited.begin_ns;
  waited.args = {s.tokens->id.request.value, timeline::packed(s.tokens->id.choice, s.attempt)};
  timeline::record(waited);
}

void attention_state::trace_end(const accepted_sequence& s) const {
  timeline::event lived{.kind = event_kind::sequence, .begin_ns = timeline::ns_of(s.arrived)};
  lived.id = s.trace;
  lived.duration_ns = timeline::ns_of(self_->clock().now()) - lived.begin_ns;
  lived.args = {s.tokens->id.request.value, timeline::packed(s.tokens->id.choice, s.attempt),
                s.tokens->num_prompt, s.tokens->tokens.size() - s.tokens->num_prompt};
  timeline::record(lived);
}

void attention_state::trace_expert_wait(const flying_batch& flying) const {
  timeline::event waited{.kind = event_kind::expert_wait, .begin_ns = timeline::ns_of(flying.dispatched)};
  waited.id = flying.step->trace;
  waited.duration_ns = timeline::ns_of(self_->clock().now()) - waited.begin_ns;
  waited.args = {flying.layer, flying.iteration.rows};
  timeline::record(waited);
}

/// Records the micro-batch, and each traced sequence in it.
void attention_state::trace_iteration(const flying_batch& flying) const {
  timeline::event passed{.kind = event_kind::micro_batch, .begin_ns = timeline::ns_of(flying.started)};
  passed.id = flying.step->trace;
  passed.duration_ns = timeline::ns_of(self_->clock().now()) - passed.begin_ns;
  passed.args = {flying.iteration.rows, flying.iteration.sequences, flying.layers};
  timeline::record(passed);
  for (const auto& slice : flying.slices) {
    const auto& s = sequences_.at(slice.sequence);
    if (s.trace == 0)
      continue;
    auto iteration = passed;
    iteration.kind = event_kind::iteration;
    iteration.id = s.trace;
    iteration.args = {s.tokens->id.request.value, timeline::packed(s.tokens->id.choice, s.attempt),
                      flying.step->trace,         slice.num_rows,
                      slice.first_position,       s.tokens->tokens.size() - s.tokens->num_prompt,
                      slice.last ? 1U : 0U};
    timeline::record(iteration);
  }
}

} // namespace troupe
