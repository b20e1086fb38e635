// Stand-ins for the actors around the one under test. They implement the same typed interfaces, record what
// they receive, and answer as the test configures.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/attention/attention_worker.hpp"
#include "actors/cluster/member.hpp"
#include "actors/cluster/view_change.hpp"
#include "actors/gateway/session.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/scheduler/scheduler_metrics.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

/// A member that hosts all ordered experts. The test makes it talk to the scheduler.
using fake_member_actor = member_actor::extend<
    // Joins the scheduler with this hello.
    caf::reacts_to<caf::connect_atom, caf::strong_actor_ptr, worker_hello>,
    // Renews at the scheduler.
    caf::reacts_to<caf::update_atom, caf::strong_actor_ptr, lease_renewal>,
    // Answers the open order of this number with the report.
    caf::reacts_to<caf::put_atom, host_report>,
    // Like a member's process.
    caf::replies_to<trace_command>::with<trace_receipt>>;

struct fake_member_log {
  caf::expected<worker_welcome> welcome{caf::sec::none};
  std::vector<view_change> changes; ///< as received
  std::vector<cluster_view> views;  ///< the view after each of them
  cluster_view held;                ///< the newest view
  std::vector<host_order> orders;
  std::size_t fences = 0;
  std::size_t readies = 0; ///< how often it was told that it holds what it should
  std::vector<expert_id> hosted;
  bool answers_orders = true; ///< otherwise orders stay open
  std::string order_error;    ///< not empty: orders fail with it
  std::vector<trace_command> traced;
  std::string trace_error; ///< not empty: it does not trace

  bool is_ready() const { return !views.empty() && views.back().ready; }

  std::uint64_t epoch() const { return views.empty() ? 0 : views.back().experts.epoch; }

  std::uint64_t term() const { return views.empty() ? 0 : views.back().experts.term; }

  void take(const view_change& change) {
    changes.push_back(change);
    EXPECT_EQ(apply(held, change), view_misfit::none);
    views.push_back(held);
  }

  void take(const worker_welcome& welcomed) {
    if (const auto& whole = *welcomed.view; whole.epoch > 0)
      EXPECT_EQ(apply(held, whole), view_misfit::none);
    welcome = welcomed;
  }

  /// The newest of all terms that the scheduler sent.
  std::uint64_t newest_term() const {
    return std::max({term(), welcome ? welcome->term : 0, orders.empty() ? 0 : orders.back().term});
  }
};

struct fake_member_state {
  static inline const char* name = "fake_member";
  std::vector<std::pair<caf::typed_response_promise<host_report>, host_order>> open;
};

inline fake_member_actor::behavior_type
fake_member(fake_member_actor::stateful_pointer<fake_member_state> self,
            std::shared_ptr<fake_member_log> log) {
  return {
      [self, log](caf::connect_atom, const caf::strong_actor_ptr& scheduler, const worker_hello& hello) {
        log->welcome = caf::sec::none;
        self->request(caf::actor_cast<scheduler_actor>(scheduler), std::chrono::seconds{1}, caf::join_atom_v,
                      hello)
            .then([log](const worker_welcome& welcome) { log->take(welcome); },
                  [log](caf::error& error) { log->welcome = std::move(error); });
      },
      [self](caf::update_atom, const caf::strong_actor_ptr& scheduler, const lease_renewal& load) {
        self->send(caf::actor_cast<scheduler_actor>(scheduler), load);
      },
      [log](const shared_view_change& change) { log->take(*change); },
      [self, log](const host_order& order) -> caf::result<host_report> {
        log->orders.push_back(order);
        auto promise = self->make_response_promise<host_report>();
        if (!log->answers_orders) {
          self->state.open.emplace_back(promise, order);
          return promise;
        }
        if (log->order_error.empty())
          log->hosted = order.experts;
        promise.deliver(host_report{order.term, order.order, log->hosted, log->order_error});
        return promise;
      },
      [log](fence_atom) { ++log->fences; },
      [log](ready_atom) { ++log->readies; },
      // A tick answers all open orders.
      [self, log](caf::tick_atom) {
        for (auto& [promise, order] : std::exchange(self->state.open, {})) {
          log->hosted = order.experts;
          promise.deliver(host_report{order.term, order.order, log->hosted, {}});
        }
      },
      [](caf::leave_atom) {},
      [self](caf::put_atom, const host_report& report) {
        auto& open = self->state.open;
        const auto found = std::find_if(open.begin(), open.end(), [&report](const auto& entry) {
          return entry.second.term == report.term && entry.second.order == report.order;
        });
        ASSERT_NE(found, open.end());
        auto promise = std::move(found->first);
        open.erase(found);
        promise.deliver(report);
      },
      [log](const trace_command& command) {
        log->traced.push_back(command);
        return trace_receipt{{{"fake", log->trace_error}}};
      },
  };
}

/// Records what a session tells its client.
struct recording_listener : session_listener {
  struct choice {
    std::vector<std::int32_t> tokens;
    finish_reason finish = finish_reason::none;
  };

  std::map<std::uint32_t, choice> choices;
  std::vector<std::vector<generated_token>> prompt_logprobs;
  std::vector<caf::error> errors;
  std::size_t calls_after_end = 0;
  std::uint32_t num_choices = 1;
  std::size_t num_placed = 0;

  bool is_over() const {
    std::size_t finished = 0;
    for (const auto& [index, entry] : choices)
      finished += entry.finish != finish_reason::none ? 1 : 0;
    return !errors.empty() || finished == num_choices;
  }

  void on_placed() override { ++num_placed; }

  void on_tokens(std::uint32_t index, const std::vector<generated_token>& tokens,
                 finish_reason reason) override {
    calls_after_end += is_over() || choices[index].finish != finish_reason::none ? 1 : 0;
    for (const auto& token : tokens)
      choices[index].tokens.push_back(token.token);
    choices[index].finish = reason;
  }

  void on_prompt_logprobs(const std::vector<generated_token>& tokens) override {
    calls_after_end += is_over() ? 1 : 0;
    prompt_logprobs.push_back(tokens);
  }

  void on_error(const caf::error& error) override {
    calls_after_end += is_over() ? 1 : 0;
    errors.push_back(error);
  }
};

/// Records the scheduler's reports to its service.
struct recording_metrics : scheduler_metrics {
  std::size_t num_queued = 0;
  std::size_t num_placed = 0;
  std::uint64_t queued_bytes = 0;
  scheduler_metrics::memory memory;
  worker_counts workers;
  std::size_t without_room = 0;
  std::vector<std::chrono::nanoseconds> waits;
  std::map<ec, std::size_t> refusals;
  std::map<fence_reason, std::size_t> fences;
  std::vector<std::pair<std::string, std::string>> events;
  std::vector<placement> placements;
  std::vector<std::string> requests; ///< "id event text"

  void on_request(const request_event& step) override {
    requests.push_back(step.request.id + " " + step.name + " " + step.text);
  }

  void on_workers(const worker_counts& now) override { workers = now; }

  void on_memory(const scheduler_metrics::memory& now) override { memory = now; }

  void on_requests(std::size_t queued, std::uint64_t bytes, std::size_t placed) override {
    num_queued = queued;
    queued_bytes = bytes;
    num_placed = placed;
  }

  void on_admitted(std::chrono::nanoseconds waited) override { waits.push_back(waited); }

  void on_refused(ec code) override { ++refusals[code]; }

  void on_published(const placement& experts, bool) override { placements.push_back(experts); }

  void on_room(std::size_t num_without) override { without_room = num_without; }

  void on_fenced(fence_reason reason) override { ++fences[reason]; }

  void on_event(const char* what, const std::string& text) override { events.emplace_back(what, text); }

  std::size_t count(const std::string& what) const {
    std::size_t result = 0;
    for (const auto& entry : events)
      result += entry.first == what ? 1 : 0;
    return result;
  }
};

/// Sends a request whose answer has no content. (CAF answers unit_t with an empty message.)
template <class Handle, class... Parts>
bool is_acknowledged(deterministic_system& test, const Handle& handle, Parts... parts) {
  bool done = false;
  bool failed = false;
  test.system.spawn([&](caf::event_based_actor* self) {
    self->request(handle, std::chrono::seconds{5}, std::move(parts)...)
        .then([&] { done = true; }, [&](const caf::error&) { failed = true; });
  });
  test.run_until([&] { return done || failed; });
  return done;
}

inline worker_hello attention_hello(std::uint64_t id, std::vector<std::uint32_t> layer_experts = {4, 0, 4}) {
  worker_hello hello;
  hello.address = {
      .id = {id}, .role = worker_role::attention, .name = "attention-" + std::to_string(id), .endpoint = ""};
  hello.fingerprint = "model-a";
  hello.numerics_class = "cpu/float32";
  hello.layer_experts = std::move(layer_experts);
  hello.of_role = attention_terms{.max_num_seqs = 4, .kv_capacity_tokens = 1000, .max_model_len = 500};
  return hello;
}

inline worker_hello expert_hello(std::uint64_t id, std::uint64_t max_experts = 0) {
  worker_hello hello;
  hello.address = {
      .id = {id}, .role = worker_role::expert, .name = "expert-" + std::to_string(id), .endpoint = ""};
  hello.fingerprint = "model-a";
  hello.numerics_class = "cpu/float32";
  hello.of_role = expert_terms{.memory_bytes = 100 * max_experts, .expert_bytes = 100};
  return hello;
}

inline worker_hello gateway_hello(std::uint64_t id, std::vector<held_place> places = {}) {
  worker_hello hello;
  hello.address = {
      .id = {id}, .role = worker_role::gateway, .name = "gateway-" + std::to_string(id), .endpoint = ""};
  hello.of_role = gateway_terms{std::move(places)};
  return hello;
}

/// What the worker says of its role, to be changed.
template <class Terms>
Terms& terms_of(worker_hello& hello) {
  return std::get<Terms>(hello.of_role);
}

inline admission_request request_of(std::uint64_t id, std::uint32_t prompt_tokens = 10,
                                    std::uint32_t max_new_tokens = 10) {
  admission_request request;
  request.id = {id};
  request.prompt_tokens = prompt_tokens;
  request.max_new_tokens = max_new_tokens;
  request.deadline_ms = 10'000;
  return request;
}

} // namespace troupe
