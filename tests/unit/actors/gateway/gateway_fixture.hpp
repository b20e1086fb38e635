// A gateway whose scheduler answers when the test says so.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "actors/gateway/gateway.hpp"
#include "actors/protocol/defaults.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

/// A scheduler that answers on the test's command. Promises are kept by the actor that made them.
using scripted_scheduler_actor = scheduler_actor::extend<
    // Answers the oldest open request for a place.
    caf::reacts_to<caf::put_atom, assignment>, caf::reacts_to<caf::put_atom, request_id, caf::error>>;

struct scheduler_script {
  std::vector<admission_request> asked;
  std::vector<request_id> done;
  std::vector<std::uint32_t> answered; ///< tokens, of those that said so
  bool answers_status = true;
};

struct scripted_scheduler_state {
  static inline const char* name = "scripted_scheduler";
  std::multimap<request_id, caf::typed_response_promise<assignment>> open;
  std::vector<caf::typed_response_promise<scheduler_status>> unanswered;

  template <class Answer>
  void answer(request_id id, Answer what) {
    const auto found = open.find(id);
    ASSERT_NE(found, open.end());
    auto promise = std::move(found->second);
    open.erase(found);
    promise.deliver(std::move(what));
  }
};

inline scripted_scheduler_actor::behavior_type
scripted_scheduler(scripted_scheduler_actor::stateful_pointer<scripted_scheduler_state> self,
                   std::shared_ptr<scheduler_script> script) {
  return {
      [](caf::join_atom, const worker_hello&) { return worker_welcome{}; },
      [](const lease_renewal&) {},
      [](view_atom, worker_id) { return shared_view_change{}; },
      [](caf::leave_atom, worker_id) {},
      [self, script](const admission_request& request) -> caf::result<assignment> {
        script->asked.push_back(request);
        auto promise = self->make_response_promise<assignment>();
        self->state.open.emplace(request.id, promise);
        return promise;
      },
      [script](done_atom, request_id id) { script->done.push_back(id); },
      [script](done_atom, request_id id, std::uint32_t num_tokens) {
        script->done.push_back(id);
        script->answered.push_back(num_tokens);
      },
      [](caf::tick_atom) {},
      [](gather_atom) {},
      [self, script](status_atom) -> caf::result<scheduler_status> {
        scheduler_status status;
        status.term = 4;
        if (script->answers_status)
          return status;
        return self->state.unanswered.emplace_back(self->make_response_promise<scheduler_status>());
      },
      [self](caf::put_atom, const assignment& place) { self->state.answer(place.id, place); },
      [self](caf::put_atom, request_id id, const caf::error& why) { self->state.answer(id, why); },
  };
}

class gateway_test : public deterministic_system {
 protected:
  /// A session's answers about its place.
  struct answer {
    bool is_here = false;
    caf::expected<assignment> result{caf::sec::none};

    std::uint64_t worker() const { return is_here && result ? result->worker.id.value : 0; }

    ec code() const { return is_here && !result ? code_of(result.error()) : ec::none; }
  };

  void SetUp() override {
    deterministic_system::SetUp();
    directory = root(system.spawn(local_directory));
    gateway_config config;
    config.address = {{70}, worker_role::gateway, "gateway-0", ""};
    config.directory = directory;
    config.on_context = [this](std::uint32_t longest) { contexts.push_back(longest); };
    gateway = root(spawn_gateway(system, config));
  }

  /// Starts a scheduler and announces it to the gateway, as its member would.
  void start_scheduler() {
    script = std::make_shared<scheduler_script>();
    scheduler = root(system.spawn(scripted_scheduler, script));
    tell(scheduler_atom_v, caf::actor_cast<caf::strong_actor_ptr>(scheduler));
  }

  void lose_scheduler() {
    kill(scheduler);
    tell(scheduler_atom_v, caf::strong_actor_ptr{});
  }

  struct knowledge {
    cluster_view view;
    bool is_away = false; ///< the scheduler, for too long
    bool has_been_ready = false;
  };

  knowledge known() {
    knowledge result;
    system.spawn([&](caf::event_based_actor* self) {
      self->request(gateway, defaults::local_request, caf::get_atom_v)
          .then(
              [&](cluster_view& view, bool away, bool has_been_ready) {
                result = {std::move(view), away, has_been_ready};
              },
              [](const caf::error& error) { ADD_FAILURE() << text_of(error); });
    });
    run();
    return result;
  }

  template <class... Parts>
  void tell(Parts... parts) {
    caf::anon_send(gateway, std::move(parts)...);
    run();
  }

  /// The scheduler's answer to its oldest open question about a request.
  template <class... Parts>
  void scheduler_answers(Parts... parts) {
    caf::anon_send(scheduler, caf::put_atom_v, std::move(parts)...);
    run();
  }

  assignment place(std::uint64_t id, std::uint64_t worker) const {
    return {request_id{id}, attention_hello(worker).address};
  }

  /// Requests a place as a session does.
  answer& admit(const admission_request& request) {
    auto* slot = &answers.emplace_back();
    system.spawn([this, slot, request](caf::event_based_actor* self) {
      self->request(gateway, std::chrono::seconds{500}, request)
          .then(
              [slot](assignment& got) {
                slot->result = std::move(got);
                slot->is_here = true;
              },
              [slot](caf::error& error) {
                slot->result = std::move(error);
                slot->is_here = true;
              });
    });
    run();
    return *slot;
  }

  lease_renewal load() { return *ask<lease_renewal>(gateway, load_atom_v); }

  std::vector<complaint> complaints() { return std::get<gateway_load>(load().of_role).complaints; }

  /// A session with a place on `worker` that only records fenced workers.
  void open_session(std::uint64_t id, std::uint64_t worker, std::shared_ptr<std::vector<worker_id>> fenced) {
    auto actor = system.spawn([this, id,
                               fenced](session_actor::pointer self) -> session_actor::behavior_type {
      self->request(gateway, std::chrono::seconds{500}, request_of(id)).then([](const assignment&) {});
      return {
          [](const token_update&) {},      [](const sequence_failed&) {},
          [](stop_atom, std::uint32_t) {}, [fenced](fence_atom, worker_id gone) { fenced->push_back(gone); },
          [](caf::tick_atom) {},           [](cancel_atom) {}};
    });
    root(actor);
    run();
    scheduler_answers(place(id, worker));
  }

  static cluster_view view_of(std::initializer_list<std::uint64_t> workers) {
    cluster_view view;
    for (const auto id : workers)
      view.workers.push_back(attention_hello(id).address);
    return view;
  }

  local_directory_actor directory;
  gateway_actor gateway;
  scripted_scheduler_actor scheduler;
  std::shared_ptr<scheduler_script> script;
  std::deque<answer> answers;
  std::vector<std::uint32_t> contexts; ///< that were told
};

} // namespace troupe
