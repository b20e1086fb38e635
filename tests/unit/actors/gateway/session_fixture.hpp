// A session among stand-ins for its gateway and its attention workers.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actors/gateway/session.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

/// The fake model's token at an index of a choice.
inline std::int32_t token_at(std::uint64_t request, std::uint32_t choice, std::size_t index) {
  return static_cast<std::int32_t>(request * 10'000 + choice * 1'000 + index);
}

struct worker_script {
  std::vector<generation_request> submitted;
  std::vector<caf::strong_actor_ptr> sessions;
  std::vector<std::pair<sequence_id, std::uint32_t>> cancelled;
};

/// An attention worker that acts as the test says.
struct scripted_state {
  static inline const char* name = "scripted_worker";
};

inline attention_worker_actor::behavior_type
scripted_worker(attention_worker_actor::stateful_pointer<scripted_state> self,
                std::shared_ptr<worker_script> log) {
  return {
      [self, log](const generation_request& request) {
        log->submitted.push_back(request);
        log->sessions.push_back(self->current_sender());
      },
      [log](cancel_atom, const sequence_id& id, std::uint32_t attempt) {
        log->cancelled.emplace_back(id, attempt);
      },
      [](const cluster_view&) {},
      [](caf::join_atom) { return worker_hello{}; },
      [](load_atom) { return lease_renewal{}; },
      [](status_atom) { return attention_status{}; },
  };
}

struct counter_log {
  std::vector<admission_request> asked;
  std::vector<request_id> done;
  std::vector<std::uint32_t> answered; ///< tokens, of those that said so
  std::vector<std::uint64_t> silences;
  caf::error refusal;
  bool answers = true;
  std::size_t num_held =
      0; ///< workers asked for that are named at a tick, one each, in the order of the questions
  bool holds_workers = false;
  std::string numerics;                                   ///< of the places that it gives
  std::uint32_t most_choices = 100;                       ///< that get a place side by side
  std::map<std::uint64_t, caf::strong_actor_ptr> workers; ///< by id; those not to be avoided come first
};

struct counter_state {
  static inline const char* name = "counter";
  std::vector<caf::typed_response_promise<assignment>> open;
  std::deque<std::pair<caf::typed_response_promise<caf::strong_actor_ptr>, std::uint64_t>> held;
};

/// A gateway that places requests at once.
inline gateway_actor::behavior_type counter(gateway_actor::stateful_pointer<counter_state> self,
                                            std::shared_ptr<counter_log> log) {
  return {
      [self, log](const admission_request& request) -> caf::result<assignment> {
        log->asked.push_back(request);
        if (log->refusal)
          return log->refusal;
        if (!log->answers || log->workers.empty())
          return self->state.open.emplace_back(self->make_response_promise<assignment>());
        auto chosen = log->workers.begin()->first;
        for (auto entry = log->workers.rbegin(); entry != log->workers.rend(); ++entry)
          if (std::find(request.avoid.begin(), request.avoid.end(), worker_id{entry->first})
              == request.avoid.end())
            chosen = entry->first;
        return assignment{request.id, attention_hello(chosen).address,
                          std::min(request.num_choices, log->most_choices), 0, log->numerics};
      },
      [log](done_atom, request_id id) { log->done.push_back(id); },
      [log](done_atom, request_id id, std::uint32_t num_tokens) {
        log->done.push_back(id);
        log->answered.push_back(num_tokens);
      },
      [log](silent_atom, request_id, std::uint64_t silent_ms) { log->silences.push_back(silent_ms); },
      [self, log](caf::resolve_atom, const worker_address& worker) -> caf::result<caf::strong_actor_ptr> {
        if (log->holds_workers) {
          ++log->num_held;
          auto promise = self->make_response_promise<caf::strong_actor_ptr>();
          self->state.held.emplace_back(promise, worker.id.value);
          return promise;
        }
        auto found = log->workers.find(worker.id.value);
        if (found == log->workers.end() || !found->second)
          return make_error(ec::peer_down, "gone");
        return found->second;
      },
      [](const cluster_view&) {},
      [](scheduler_atom, const caf::strong_actor_ptr&) {},
      [self, log](caf::tick_atom) {
        ASSERT_FALSE(self->state.held.empty());
        auto [promise, worker] = std::move(self->state.held.front());
        self->state.held.pop_front();
        if (const auto found = log->workers.find(worker); found != log->workers.end() && found->second)
          promise.deliver(found->second);
        else
          promise.deliver(make_error(ec::peer_down, "gone"));
      },
      [](caf::join_atom) { return worker_hello{}; },
      [](load_atom) { return lease_renewal{}; },
      [](caf::get_atom) -> caf::result<cluster_view, bool, bool> {
        return {cluster_view{}, false, false};
      },
  };
}

class session_fixture : public deterministic_system {
 protected:
  void SetUp() override {
    deterministic_system::SetUp();
    gateway = root(system.spawn(counter, log));
  }

  void TearDown() override {
    log->workers.clear();
    for (auto& script : scripts)
      script->sessions.clear();
    session = nullptr;
    workers.clear();
    deterministic_system::TearDown();
  }

  std::shared_ptr<worker_script> add_worker(std::uint64_t id) {
    auto script = std::make_shared<worker_script>();
    scripts.push_back(script);
    workers[id] = root(system.spawn(scripted_worker, script));
    log->workers[id] = caf::actor_cast<caf::strong_actor_ptr>(workers[id]);
    return script;
  }

  session_request make_request(std::uint32_t num_choices = 1, std::int32_t max_tokens = 8) {
    session_request request;
    request.id = {7};
    request.prompt = {1, 2, 3};
    request.sampling.max_tokens = max_tokens;
    request.sampling.seed = 5;
    request.num_choices = num_choices;
    return request;
  }

  void open(session_request request) {
    listener = std::make_shared<recording_listener>();
    listener->num_choices = request.num_choices;
    ended = false;
    session = root(spawn_session(system, gateway, std::move(request), listener));
    caf::actor_cast<caf::abstract_actor*>(session)->attach_functor(
        [this](const caf::error&) { ended = true; });
    run();
  }

  bool has_ended() const { return ended; }

  static token_update update(std::uint32_t attempt, std::uint32_t first, std::uint32_t count,
                             std::uint32_t choice = 0, finish_reason finish = finish_reason::none) {
    token_update result;
    result.id = {{7}, choice};
    result.attempt = attempt;
    result.first_index = first;
    for (std::uint32_t index = first; index < first + count; ++index)
      result.tokens.push_back({.token = token_at(7, choice, index), .logprob = 0.0F, .rank = 0, .top = {}});
    result.finish = finish;
    return result;
  }

  template <class... Parts>
  void tell(Parts... parts) {
    caf::anon_send(session, std::move(parts)...);
    run();
  }

  void fail_sequence(std::uint32_t attempt, ec code, std::uint32_t choice = 0) {
    tell(sequence_failed{{{7}, choice}, attempt, code, "no"});
  }

  std::vector<std::int32_t> expected_tokens(std::size_t count, std::uint32_t choice = 0) {
    std::vector<std::int32_t> result;
    for (std::size_t index = 0; index < count; ++index)
      result.push_back(token_at(7, choice, index));
    return result;
  }

  gateway_actor gateway;
  std::shared_ptr<counter_log> log = std::make_shared<counter_log>();
  std::vector<std::shared_ptr<worker_script>> scripts;
  std::map<std::uint64_t, attention_worker_actor> workers;
  std::shared_ptr<recording_listener> listener;
  session_actor session;
  bool ended = false;
};

} // namespace troupe
