#include "actors/gateway/session.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/sec.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/gateway/session_policy.hpp"
#include "actors/protocol/attention_worker_actor.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

using time_point = caf::actor_clock::time_point;

struct session_state {
  using pointer = session_actor::stateful_pointer<session_state>;

  /// pausing → admitting → resolving → running, and back to pausing when the worker fails.
  enum class phase { pausing, admitting, resolving, running };

  static inline const char* name = "session";

  session_state() = default; // not an aggregate: CAF would pass the actor to the first member

  gateway_actor gateway;
  session_request request;
  std::shared_ptr<session_listener> listener;
  std::vector<choice_log> choices;
  bool has_prompt_logprobs = false; ///< the listener has received them
  bool has_cached_tokens = false;   ///< likewise
  phase now = phase::admitting;
  std::uint32_t attempt = 0;      ///< also recognizes late answers to an older attempt
  worker_id worker;               ///< of this attempt, once there is a place
  attention_worker_actor handle;  ///< of that worker, under monitor, while running
  std::uint32_t most_running = 0; ///< choices that may run there at the same time
  std::uint32_t next_choice = 0;  ///< first choice that the worker does not have yet
  std::vector<worker_id> avoid;
  std::string numerics;    ///< numerics class that computed the tokens so far
  std::string worker_name; ///< of `worker`
  std::string lost_worker; ///< name of the worker that failed last, until there is another one
  std::string lost_why;
  bool was_placed = false;
  std::uint64_t trace = 0;                 ///< its key in the timeline; 0: it is not traced
  time_point next_tick;                    ///< of the regular ones; pauses have their own
  time_point resume_at;                    ///< while pausing
  time_point last_word;                    ///< of the worker, or the time of submission
  time_point deadline = time_point::max(); ///< of the whole request
};

using session_pointer = session_state::pointer;
using phase = session_state::phase;

void say(session_pointer self, const char* event, std::string text) {
  const auto& request = self->state.request;
  if (request.log)
    request.log({event, request.context, std::move(text)});
}

std::size_t tokens_so_far(const session_state& state) {
  std::size_t sum = 0;
  for (const auto& choice : state.choices)
    sum += choice.tokens().size();
  return sum;
}

/// Cancels the unfinished sequences of this attempt on the worker, and releases the worker.
void drop_worker(session_pointer self) {
  auto& state = self->state;
  if (!state.handle)
    return;
  for (std::uint32_t choice = 0; choice < state.next_choice; ++choice)
    if (!state.choices[choice].is_finished())
      self->send(state.handle, cancel_atom_v, sequence_id{state.request.id, choice}, state.attempt);
  self->demonitor(state.handle.address());
  state.handle = nullptr;
}

/// Mean number of tokens over the choices that have begun, rounded up; 0 if none has.
std::uint32_t answer_tokens(const session_state& state) {
  const auto begun = std::count_if(state.choices.begin(), state.choices.end(),
                                   [](const auto& choice) { return !choice.tokens().empty(); });
  const auto divisor = static_cast<std::size_t>(std::max<std::ptrdiff_t>(begun, 1));
  return static_cast<std::uint32_t>((tokens_so_far(state) + divisor - 1) / divisor);
}

/// Ends the session in every case: releases the worker and the place.
/// @param num_tokens  length of the answer; 0: it is not representative
void end(session_pointer self, std::uint32_t num_tokens) {
  drop_worker(self);
  if (num_tokens > 0)
    self->send(self->state.gateway, done_atom_v, self->state.request.id, num_tokens);
  else
    self->send(self->state.gateway, done_atom_v, self->state.request.id);
  self->quit();
}

void fail(session_pointer self, const caf::error& error) {
  auto& state = self->state;
  if (state.request.log) {
    const auto is_new = !state.was_placed;
    say(self, is_new ? "request-refused" : "request-failed",
        text_of(error)
            + (is_new ? ""
                      : "; last on " + state.worker_name + ", after " + std::to_string(tokens_so_far(state))
                            + " tokens, attempt " + std::to_string(state.attempt)));
  }
  self->state.listener->on_error(error);
  end(self, 0);
}

bool end_if_complete(session_pointer self) {
  const auto& choices = self->state.choices;
  if (!std::all_of(choices.begin(), choices.end(), [](const auto& choice) { return choice.is_finished(); }))
    return false;
  if (self->state.request.log)
    say(self, "request-finished",
        std::to_string(tokens_so_far(self->state)) + " tokens, last worker " + self->state.worker_name);
  end(self, answer_tokens(self->state));
  return true;
}

/// Gives the place back and asks for another one, after a pause that grows with every attempt.
void replay(session_pointer self, const caf::error& why) {
  auto& state = self->state;
  if (state.attempt + 1 >= defaults::max_attempts) {
    fail(self, why);
    return;
  }
  drop_worker(self);
  self->send(state.gateway, done_atom_v, state.request.id);
  if (std::find(state.avoid.begin(), state.avoid.end(), state.worker) == state.avoid.end())
    state.avoid.push_back(state.worker);
  ++state.attempt;
  state.lost_worker = state.worker_name;
  state.lost_why = text_of(why);
  // The worker may have died after the last token and before it reported the end.
  for (std::uint32_t choice = 0; choice < state.choices.size(); ++choice)
    if (auto& log = state.choices[choice];
        !log.is_finished()
        && log.tokens().size() >= static_cast<std::size_t>(state.request.sampling.max_tokens)) {
      log.finish();
      state.listener->on_tokens(choice, {}, finish_reason::length);
    }
  if (end_if_complete(self))
    return;
  auto pause = replay_pause(state.attempt);
  state.now = phase::pausing;
  state.resume_at = self->clock().now() + pause;
  self->delayed_send(self, pause, caf::tick_atom_v);
}

/// Sends the next choices to the worker, as many as have room there beside those that run. All have their own
/// stream of random numbers, so that each says the same whenever it runs.
void submit_choices(session_pointer self) {
  auto& state = self->state;
  auto num_running = std::count_if(state.choices.begin(), state.choices.begin() + state.next_choice,
                                   [](const auto& choice) { return !choice.is_finished(); });
  for (; state.next_choice < state.choices.size() && num_running < state.most_running; ++state.next_choice) {
    const auto choice = state.next_choice;
    const auto& log = state.choices[choice];
    if (log.is_finished())
      continue;
    ++num_running;
    generation_request sequence{.id = {state.request.id, choice},
                                .attempt = state.attempt,
                                .priority = state.request.priority,
                                .prompt = state.request.prompt,
                                .emitted = log.tokens(),
                                .sampling = state.request.sampling,
                                .context = state.request.context,
                                .cache_salt = state.request.cache_salt};
    timeline::span submitting(timeline::event_kind::submit, state.trace);
    submitting.args() = {state.request.id.value, timeline::packed(choice, state.attempt), state.worker.value};
    if (state.has_prompt_logprobs)
      sequence.sampling.prompt_logprobs = -1;
    self->send(state.handle, std::move(sequence));
  }
}

void submit(session_pointer self) {
  auto& state = self->state;
  state.now = phase::running;
  state.last_word = self->clock().now();
  self->monitor(state.handle);
  if (!std::exchange(state.was_placed, true))
    state.listener->on_placed();
  submit_choices(self);
}

/// Logs each place.
void told_of_place(session_pointer self) {
  auto& state = self->state;
  if (!state.request.log)
    return;
  if (state.lost_why.empty())
    say(self, "request-placed", "on " + state.worker_name);
  else
    say(self, "request-replayed",
        "from " + state.lost_worker + " to " + state.worker_name + ", attempt "
            + std::to_string(state.attempt) + ", with " + std::to_string(tokens_so_far(state))
            + " tokens of the answer: " + state.lost_why);
  state.lost_why.clear();
}

/// Whether `place` computes with the same numerics as the answer so far. If not, the request has failed.
bool goes_on_at(session_pointer self, const assignment& place) {
  auto& state = self->state;
  if (!state.numerics.empty() && !place.numerics.empty() && state.numerics != place.numerics
      && tokens_so_far(state) > 0) {
    fail(self, make_error(ec::incompatible,
                          "the workers have been replaced by others that compute differently ("
                              + place.numerics + ", not " + state.numerics + "): send the request again"));
    return false;
  }
  state.numerics = place.numerics;
  return true;
}

void resolve(session_pointer self, const assignment& place) {
  auto& state = self->state;
  const auto& worker = place.worker;
  state.now = phase::resolving;
  state.worker = worker.id;
  state.worker_name = worker.name;
  told_of_place(self);
  state.most_running = std::max(place.num_choices, std::uint32_t{1});
  state.next_choice = 0;
  auto attempt = state.attempt;
  // The gateway answers within defaults::connect_timeout.
  self->request(state.gateway, defaults::connect_timeout + defaults::local_request, caf::resolve_atom_v,
                worker)
      .then(
          [self, attempt](const caf::strong_actor_ptr& handle) {
            if (attempt != self->state.attempt || self->state.now != phase::resolving)
              return;
            self->state.handle = caf::actor_cast<attention_worker_actor>(handle);
            submit(self);
          },
          [self, attempt](const caf::error& error) {
            if (attempt == self->state.attempt && self->state.now == phase::resolving)
              replay(self, error);
          });
}

/// Number of tokens of the longest unfinished choice.
std::uint32_t longest_answer(const std::vector<choice_log>& choices) {
  std::size_t longest = 0;
  for (const auto& choice : choices)
    if (!choice.is_finished())
      longest = std::max(longest, choice.tokens().size());
  return static_cast<std::uint32_t>(longest);
}

void trace_admission(session_pointer self, std::uint64_t begin_ns) {
  timeline::event admitted{.kind = timeline::event_kind::admission, .begin_ns = begin_ns};
  admitted.id = self->state.trace;
  admitted.duration_ns = timeline::now_ns() - begin_ns;
  admitted.args = {self->state.request.id.value, self->state.attempt};
  timeline::record(admitted);
}

std::vector<prefix_landmark> landmarks_of(const session_request& request) {
  prefix_chain chain{request.cache_salt, request.prefix_unit};
  chain.extend(request.prompt);
  return troupe::landmarks_of(chain);
}

void ask_for_place(session_pointer self) {
  auto& state = self->state;
  state.now = phase::admitting;
  auto num_open = std::count_if(state.choices.begin(), state.choices.end(),
                                [](const auto& choice) { return !choice.is_finished(); });
  auto wait = state.request.admission_wait.count() > 0 ? state.request.admission_wait
                                                       : std::chrono::milliseconds{defaults::admission_wait};
  admission_request question{.id = state.request.id,
                             .prompt_tokens = static_cast<std::uint32_t>(state.request.prompt.size()),
                             .max_new_tokens = static_cast<std::uint32_t>(state.request.sampling.max_tokens),
                             .min_new_tokens =
                                 state.request.open_ended ? longest_answer(state.choices) + 1 : 0,
                             .num_choices = static_cast<std::uint32_t>(num_open),
                             .priority = state.request.priority,
                             .deadline_ms = static_cast<std::uint64_t>(wait.count()),
                             .attempt = state.attempt,
                             .follows = state.request.follows,
                             .avoid = state.avoid,
                             .tenant = state.request.tenant,
                             .weight = state.request.weight,
                             .context = state.request.context,
                             .landmarks = landmarks_of(state.request)};
  auto attempt = state.attempt;
  const auto begin_ns = state.trace == 0 ? 0 : timeline::now_ns();
  timeline::span asking(timeline::event_kind::ask_place, state.trace);
  asking.args() = {state.request.id.value, attempt};
  // Scheduler and gateway answer by the request's own deadline; this one is for when they cannot.
  self->request(state.gateway, wait + 2 * defaults::local_request, std::move(question))
      .then(
          [self, attempt, begin_ns](const assignment& place) {
            if (attempt != self->state.attempt || self->state.now != phase::admitting)
              return;
            if (self->state.trace != 0)
              trace_admission(self, begin_ns);
            if (goes_on_at(self, place))
              resolve(self, place);
          },
          [self, attempt](const caf::error& error) {
            if (attempt != self->state.attempt || self->state.now != phase::admitting)
              return;
            if (error == caf::sec::request_timeout)
              fail(self, make_error(ec::deadline_exceeded, "no place in time"));
            else if (is_peer_down(error))
              fail(self, make_error(ec::shutting_down, "the gateway is gone"));
            else
              fail(self, error);
          });
}

/// Whether the sequence still runs in this attempt.
bool is_current(session_pointer self, const sequence_id& id, std::uint32_t attempt) {
  const auto& state = self->state;
  return state.now == phase::running && attempt == state.attempt && id.request == state.request.id
         && id.choice < state.choices.size() && !state.choices[id.choice].is_finished();
}

void on_update(session_pointer self, token_update& update) {
  auto& state = self->state;
  if (!is_current(self, update.id, update.attempt))
    return;
  auto choice = update.id.choice;
  timeline::span arriving(timeline::event_kind::token_arrived, update.tokens.empty() ? 0 : state.trace);
  arriving.args() = {update.id.request.value, timeline::packed(choice, update.attempt), update.first_index,
                     update.tokens.size()};
  auto& log = state.choices[choice];
  auto verdict = log.accept(update.first_index, update.tokens);
  if (verdict == choice_log::verdict::gap || update.finish == finish_reason::cancelled) {
    replay(self, make_error(ec::engine_failed, "the worker lost tokens of choice " + std::to_string(choice)));
    return;
  }
  state.last_word = self->clock().now();
  // Logprobs of the prompt come with the first token, or the end; without either it is a word of progress.
  auto is_answer = verdict == choice_log::verdict::fresh || update.finish != finish_reason::none;
  if (is_answer && state.request.sampling.prompt_logprobs >= 0 && !state.has_prompt_logprobs) {
    state.has_prompt_logprobs = true;
    state.listener->on_prompt_logprobs(update.prompt_logprobs);
  }
  if (is_answer && !std::exchange(state.has_cached_tokens, true))
    state.listener->on_cached_tokens(
        std::min(update.num_cached, static_cast<std::uint32_t>(state.request.prompt.size())));
  if (is_answer)
    state.listener->on_tokens(choice, update.tokens, update.finish);
  if (update.finish == finish_reason::none)
    return;
  log.finish();
  if (!end_if_complete(self))
    submit_choices(self);
}

void on_failed(session_pointer self, const sequence_failed& failure) {
  if (!is_current(self, failure.id, failure.attempt))
    return;
  auto error = make_error(failure.code, failure.text);
  if (is_retryable(failure.code))
    replay(self, error);
  else
    fail(self, error);
}

void on_stop(session_pointer self, std::uint32_t choice) {
  auto& state = self->state;
  if (choice >= state.choices.size() || state.choices[choice].is_finished())
    return;
  state.choices[choice].finish();
  if (state.handle && choice < state.next_choice)
    self->send(state.handle, cancel_atom_v, sequence_id{state.request.id, choice}, state.attempt);
  state.listener->on_tokens(choice, {}, finish_reason::stop);
  if (!end_if_complete(self) && state.now == phase::running)
    submit_choices(self);
}

void on_tick(session_pointer self) {
  auto& state = self->state;
  auto now = self->clock().now();
  if (now >= state.next_tick) {
    state.next_tick = now + defaults::session_tick;
    self->delayed_send(self, defaults::session_tick, caf::tick_atom_v);
  }
  if (now >= state.deadline)
    fail(self, make_error(ec::deadline_exceeded, "the request took longer than its timeout"));
  else if (state.now == phase::pausing && now >= state.resume_at)
    ask_for_place(self);
  else if (state.now == phase::running && now - state.last_word >= defaults::token_wait)
    replay(self, make_error(ec::peer_down, "the worker has been silent for too long"));
  else if (state.now == phase::running && now - state.last_word > defaults::engine_stall)
    self->send(state.gateway, silent_atom_v, state.request.id,
               static_cast<std::uint64_t>(
                   std::chrono::duration_cast<std::chrono::milliseconds>(now - state.last_word).count()));
}

session_actor::behavior_type session(session_pointer self, const gateway_actor& gateway,
                                     session_request request, std::shared_ptr<session_listener> listener) {
  auto& state = self->state;
  state.gateway = gateway;
  state.request = std::move(request);
  state.listener = std::move(listener);
  state.choices.resize(state.request.num_choices);
  if (state.request.timeout.count() > 0)
    state.deadline = self->clock().now() + state.request.timeout;
  self->set_down_handler([self](const caf::down_msg& down) {
    if (self->state.handle && down.source == self->state.handle.address())
      replay(self, make_error(ec::peer_down, "the attention worker has died"));
  });
  self->set_exit_handler([self](const caf::exit_msg&) {
    fail(self, make_error(ec::shutting_down, "the gateway is shutting down"));
  });
  if (state.request.log)
    say(self, "request-accepted",
        std::to_string(state.request.prompt.size()) + " prompt tokens, up to "
            + std::to_string(state.request.sampling.max_tokens) + " new ones, "
            + std::to_string(state.request.num_choices) + " choices");
  state.trace = timeline::key_if_traced(state.request.context);
  if (state.trace != 0)
    timeline::name_request(state.trace, state.request.context, state.request.id.value);
  on_tick(self);
  ask_for_place(self);
  return {
      [self](token_update& update) { on_update(self, update); },
      [self](const sequence_failed& failure) { on_failed(self, failure); },
      [self](stop_atom, std::uint32_t choice) { on_stop(self, choice); },
      [self](fence_atom, worker_id worker) {
        if (worker == self->state.worker
            && (self->state.now == phase::resolving || self->state.now == phase::running))
          replay(self, make_error(ec::peer_down, "the attention worker has been declared dead"));
      },
      [self](caf::tick_atom) { on_tick(self); },
      [self](cancel_atom) {
        if (self->state.request.log)
          say(self, "request-cancelled",
              "nobody waits for it any more, after " + std::to_string(tokens_so_far(self->state))
                  + " tokens");
        end(self, answer_tokens(self->state));
      },
  };
}

} // namespace

session_actor spawn_session(caf::actor_system& system, gateway_actor gateway, session_request request,
                            std::shared_ptr<session_listener> listener) {
  return system.spawn(session, std::move(gateway), std::move(request), std::move(listener));
}

} // namespace troupe
