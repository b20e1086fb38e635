#include "actors/history/activation_reporter.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/sec.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/cluster/resolve_any.hpp"
#include "actors/history/history.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

/// The messages that an attention worker handles for its reporter.
using counting_actor = caf::typed_actor<caf::replies_to<caf::get_atom>::with<activation_counts_ptr>>;

struct activation_reporter_state {
  using pointer = activation_reporter_actor::stateful_pointer<activation_reporter_state>;

  static inline const char* name = "activation_reporter";

  activation_reporter_config config;
  counting_actor worker;
  history_actor history; ///< null until found; monitored
  // Counts up to which windows were cut.
  activation_counts_ptr told = std::make_shared<const activation_counts>();
  caf::actor_clock::time_point looked; ///< last time of reading the counts; the next window begins then
  std::deque<std::string> kept;        ///< windows, encoded
  std::uint64_t first = 1;             ///< sequence number of the first kept window, or of the next one
  std::uint64_t taken = 0;             ///< counted by the present history, as far as known
  std::uint64_t saved = 0;             ///< saved by the history, whatever happens to it
  bool is_busy = false;                ///< a round is under way
  std::vector<caf::typed_response_promise<caf::unit_t>>
      leaving;              ///< to be answered when everything is reported
  std::size_t endpoint = 0; ///< of the scheduler to ask first, modulo their number
  int rounds_left = 0;      ///< until then: one for waiting windows, one for newer counts

  std::uint64_t last() const { return first + kept.size() - 1; }
};

using pointer = activation_reporter_state::pointer;

void begin_round(pointer self);

/// @param is_well  all requests of the round succeeded
void end_round(pointer self, bool is_well) {
  auto& state = self->state;
  state.is_busy = false;
  if (!state.leaving.empty() && is_well && state.rounds_left-- > 0) {
    begin_round(self);
    return;
  }
  for (auto& promise : std::exchange(state.leaving, {}))
    promise.deliver(caf::unit);
}

/// Drops windows that no restarted scheduler will need, and, if there are too many, the oldest counted ones.
void forget(activation_reporter_state& state) {
  while (!state.kept.empty()
         && (state.first <= state.saved
             || (state.kept.size() > defaults::max_unsaved_windows && state.first <= state.taken))) {
    state.kept.pop_front();
    ++state.first;
  }
}

void lose_history(pointer self) {
  auto& state = self->state;
  if (!state.history)
    return;
  self->demonitor(state.history.address());
  state.history = nullptr;
  ++state.endpoint;          // the other scheduler is more likely to answer
  state.taken = state.saved; // another history may know only these
}

/// Sends the uncounted windows to the history, which must be known.
void send_report(pointer self) {
  auto& state = self->state;
  const auto skipped = state.taken < state.first ? 0 : state.taken + 1 - state.first;
  activation_report report;
  report.worker = state.config.id;
  report.fingerprint = state.config.fingerprint;
  report.layer_experts = state.config.layer_experts;
  report.first = state.first + skipped;
  report.windows.assign(state.kept.begin() + static_cast<std::ptrdiff_t>(skipped), state.kept.end());
  const auto history = state.history;
  self->request(history, defaults::local_request, std::move(report))
      .then(
          [self, history](const activation_receipt& receipt) {
            auto& st = self->state;
            // Otherwise it went down meanwhile, and unsaved windows are sent again.
            if (st.history == history) {
              st.taken = std::max(st.taken, std::min(receipt.taken, st.last()));
              st.saved = std::max(st.saved, std::min(receipt.saved, st.last()));
              forget(st);
            }
            end_round(self, true);
          },
          [self](const caf::error& error) {
            // No answer: the scheduler may be stalled, and its standby active.
            if (is_peer_down(error) || error == caf::sec::request_timeout)
              lose_history(self);
            end_round(self, false);
          });
}

/// Reports waiting windows once the history is found.
void deliver(pointer self) {
  auto& state = self->state;
  if (state.taken >= state.last()) {
    end_round(self, true);
    return;
  }
  if (state.history) {
    send_report(self);
    return;
  }
  resolve_any(
      self, state.config.directory, state.config.scheduler_endpoints, "history", state.endpoint,
      [self](const caf::strong_actor_ptr& found, std::size_t endpoint) {
        self->state.endpoint = endpoint;
        self->state.history = caf::actor_cast<history_actor>(found);
        self->monitor(self->state.history);
        send_report(self);
      },
      [self](const caf::error&) { end_round(self, false); });
}

/// Cuts a window from what was added to the worker's counts.
void cut(pointer self, const activation_counts_ptr& counts) {
  auto& state = self->state;
  const auto now = self->clock().now();
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(now - state.looked);
  state.looked = now;
  if (auto fresh = counts_between(*state.told, *counts); num_rows(fresh) > 0) {
    state.told = counts;
    state.kept.push_back(encode({static_cast<std::uint64_t>(duration.count()), std::move(fresh)}));
    forget(state);
  }
  deliver(self);
}

/// Reads the worker's counts, cuts a window, finds the history, awaits the receipt, each with its deadline.
/// The next round repeats what failed.
void begin_round(pointer self) {
  auto& state = self->state;
  state.is_busy = true;
  if (state.taken < state.last()) {
    deliver(self);
    return;
  }
  self->request(state.worker, defaults::local_request, caf::get_atom_v)
      .then([self](const activation_counts_ptr& counts) { cut(self, counts); },
            [self](const caf::error&) { end_round(self, false); });
}

activation_reporter_actor::behavior_type activation_reporter(pointer self,
                                                             activation_reporter_config config) {
  auto& state = self->state;
  state.worker = caf::actor_cast<counting_actor>(config.worker);
  state.config = std::move(config);
  state.looked = self->clock().now();
  self->monitor(state.worker);
  self->set_down_handler([self](const caf::down_msg& down) {
    if (down.source == self->state.worker.address())
      self->quit(down.reason);
    else if (self->state.history && down.source == self->state.history.address())
      lose_history(self);
  });
  self->delayed_send(self, defaults::history_interval, caf::tick_atom_v);
  return {
      [self](caf::tick_atom) {
        self->delayed_send(self, defaults::history_interval, caf::tick_atom_v);
        if (!self->state.is_busy)
          begin_round(self);
      },
      [self](caf::leave_atom) -> caf::result<void> {
        auto promise = self->make_response_promise<caf::unit_t>();
        self->state.leaving.push_back(promise);
        self->state.rounds_left = 2;
        if (!self->state.is_busy)
          begin_round(self);
        return promise;
      },
  };
}

} // namespace

activation_reporter_actor spawn_activation_reporter(caf::actor_system& system,
                                                    activation_reporter_config config) {
  return system.spawn(activation_reporter, std::move(config));
}

} // namespace troupe
