#include "actors/history/history.hpp"

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/history/history_writer.hpp"
#include "actors/protocol/error.hpp"
#include "actors/state/file_format.hpp"

namespace troupe {

namespace {

/// The initial content of a history.
struct beginning {
  activation_history history;
  std::map<worker_id, std::uint64_t> saved; ///< saved windows of each worker
  std::string origin;                       ///< its source, for people; empty: it begins empty
  bool is_stored = false;                   ///< in the state directory
};

struct history_state {
  using pointer = history_actor::stateful_pointer<history_state>;

  static inline const char* name = "history";

  history_config config;
  beginning known;
  history_writer_actor writer; ///< null: nothing is saved
  bool is_confirmed = false;   ///< a worker of this cluster has reported: the model is right
  bool is_changed = false;     ///< since the last write began
  bool is_planned = false;     ///< a tick is scheduled
  bool is_writing = false;
  bool is_late = false;             ///< the write under way exceeds its time
  std::optional<caf::error> ending; ///< why the actor ends, after the last write
};

using history_pointer = history_state::pointer;

void tell(const history_config& config, const char* event, const std::string& text) {
  if (config.on_event)
    config.on_event(event, text);
}

void plan_write(history_pointer self) {
  auto& state = self->state;
  if (!state.writer || !state.is_changed || state.is_writing || std::exchange(state.is_planned, true))
    return;
  self->delayed_send(self, defaults::history_save_interval, caf::tick_atom_v);
}

void write(history_pointer self);

/// The write under way has ended, well or not.
void written(history_pointer self) {
  auto& state = self->state;
  state.is_writing = state.is_late = false;
  if (!state.ending)
    plan_write(self);
  else if (state.is_changed)
    write(self);
  else
    self->quit(*state.ending);
}

void write(history_pointer self) {
  auto& state = self->state;
  state.is_changed = false;
  state.is_writing = true;
  if (!std::exchange(state.is_planned, true)) // for the next write, or to report that this one is slow
    self->delayed_send(self, defaults::history_save_interval, caf::tick_atom_v);
  auto stored = std::make_shared<stored_history>(state.known.history.stored());
  // Without a deadline: there is one write at a time, and only the next one waits for it. on_tick reports a
  // slow one.
  self->request(state.writer, caf::infinite, caf::put_atom_v, stored_history_ptr{stored})
      .then(
          [self, stored] {
            self->state.known.saved = stored->counted;
            written(self);
          },
          [self](const caf::error& error) {
            tell(self->state.config, "history-unsaved", text_of(error));
            self->state.is_changed = !self->state.ending; // the last write is not repeated
            written(self);
          });
}

void on_tick(history_pointer self) {
  auto& state = self->state;
  state.is_planned = false;
  if (state.is_writing && !std::exchange(state.is_late, true))
    tell(state.config, "history-unsaved",
         "the disk has not taken it for " + std::to_string(defaults::history_save_interval.count()) + " s");
  else if (!state.is_writing && state.is_changed)
    write(self);
}

/// A report of another model than the initial history's: that history is not this cluster's.
void begin_anew(history_pointer self, const activation_report& report) {
  auto& state = self->state;
  tell(state.config, "history-unused",
       state.known.origin + " is of model " + state.known.history.fingerprint() + ", and this cluster serves "
           + report.fingerprint + ": the history begins empty"
           + (state.known.is_stored ? "; the file is set aside" : ""));
  if (state.known.is_stored)
    self->request(state.writer, caf::infinite, caf::delete_atom_v)
        .then(
            [] {},
            [self](const caf::error& error) { tell(self->state.config, "history-unsaved", text_of(error)); });
  state.known = {activation_history{state.config.limits}, {}, {}, false};
  state.is_changed = false; // nothing worth saving
}

caf::result<activation_receipt> on_report(history_pointer self, const activation_report& report) {
  auto& state = self->state;
  auto& history = state.known.history;
  if (state.ending)
    return make_error(ec::shutting_down, "the history is being written for the last time");
  if (!history.is_of(report.fingerprint, report.layer_experts)) {
    if (state.is_confirmed)
      return make_error(ec::incompatible, "the history is of model " + history.fingerprint()
                                              + ", and the report of model " + report.fingerprint);
    begin_anew(self, report);
  }
  try {
    if (history.count(report, self->clock().now())) {
      state.is_confirmed = true;
      state.is_changed = true;
      plan_write(self);
    }
  } catch (const std::runtime_error& flaw) {
    return make_error(ec::bad_request, flaw.what());
  }
  activation_receipt receipt;
  receipt.taken = history.counted(report.worker);
  receipt.saved = receipt.taken;
  if (state.writer) {
    const auto found = state.known.saved.find(report.worker);
    receipt.saved = found == state.known.saved.end() ? 0 : found->second;
  }
  return receipt;
}

history_actor::behavior_type history(history_pointer self, history_config config, beginning known,
                                     const history_writer_actor& writer) {
  auto& state = self->state;
  state.config = std::move(config);
  state.known = std::move(known);
  state.writer = writer;
  state.is_changed = !state.known.history.is_empty() && !state.known.is_stored; // a seed is saved as our own
  if (writer)
    self->link_to(writer);
  plan_write(self);
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    auto& st = self->state;
    const auto is_writer = st.writer && exit.source == st.writer.address();
    if (st.ending || is_writer || !st.writer || (!st.is_changed && !st.is_writing)) {
      self->quit(exit.reason);
      return;
    }
    st.ending = exit.reason;
    if (!st.is_writing)
      write(self);
  });
  return {
      [self](const activation_report& report) { return on_report(self, report); },
      [self](history_atom, std::uint32_t max_windows) {
        return self->state.known.history.snapshot(max_windows);
      },
      [self](caf::tick_atom) { on_tick(self); },
  };
}

/// The usable history of the state directory, if there is one.
std::optional<beginning> load(const history_config& config, const history_store& store) {
  try {
    auto stored = store.load();
    if (!stored)
      return std::nullopt;
    auto saved = stored->counted;
    return beginning{activation_history{config.limits, std::move(*stored)}, std::move(saved), store.path(),
                     true};
  } catch (const later_format& refused) {
    throw later_format("'" + store.path() + "' cannot be used: " + refused.what());
  } catch (const std::runtime_error& flaw) {
    store.set_aside();
    tell(config, "history-damaged",
         store.path() + " is not used, and set aside as " + store.path() + ".unused: " + flaw.what());
    return std::nullopt;
  }
}

} // namespace

history_actor spawn_history(caf::actor_system& system, history_config config) {
  std::optional<history_store> store;
  std::optional<beginning> known;
  if (!config.state_dir.empty()) {
    store.emplace(config.state_dir);
    known = load(config, *store);
  }
  if (!known && config.seed)
    known = beginning{activation_history{config.limits, {config.seed(), {}}}, {}, "the given history", false};
  if (known)
    tell(config, "history",
         "goes on with " + known->origin + ", " + std::to_string(known->history.tokens()) + " tokens"
             + (known->is_stored && config.seed ? "; the given history is not read" : ""));
  else
    known = beginning{activation_history{config.limits}, {}, {}, false};
  history_writer_actor writer;
  if (store)
    writer = spawn_history_writer(system, std::move(*store), config.is_deposed);
  return system.spawn(history, std::move(config), std::move(*known), std::move(writer));
}

} // namespace troupe
