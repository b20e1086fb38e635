// The seam between HTTP and actors, with a gateway actor that plays a part.
#include <chrono>
#include <future>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <gtest/gtest.h>

#include "actors/type_ids.hpp"
#include "services/gateway/actor_backend.hpp"

namespace troupe {

namespace {

/// Refuses every request as overloaded, and knows a view and a status.
gateway_actor::behavior_type refusing_gateway(gateway_actor::pointer self) {
  return {
      [](const admission_request& request) -> caf::result<assignment> {
        return make_error(ec::overloaded, request.follows ? "full, and it follows" : "full");
      },
      [](done_atom, request_id) {},
      [](done_atom, request_id, uint32_t) {},
      [](silent_atom, request_id, uint64_t) {},
      [](caf::resolve_atom, const worker_address&) -> caf::result<caf::strong_actor_ptr> {
        return make_error(ec::peer_down, "nobody");
      },
      [](const cluster_view&) {},
      [](scheduler_atom, const caf::strong_actor_ptr&) {},
      [self](caf::tick_atom) { self->quit(); },
      [](caf::join_atom) { return worker_hello{}; },
      [](load_atom) { return lease_renewal{}; },
      [](caf::get_atom) -> caf::result<cluster_view, bool> {
        cluster_view view;
        view.ready = true;
        return {view, true};
      },
      [](status_atom) -> caf::result<scheduler_status> { return make_error(ec::not_ready, "no scheduler"); },
      [](history_atom, uint32_t max_windows) {
        history_snapshot known;
        known.tokens = max_windows;
        return known;
      },
      [](const placement_command& asked) -> caf::result<placement_change> {
        if (asked.action == placement_action::drain)
          return make_error(ec::bad_request, "no expert worker is named '" + asked.worker + "'");
        placement_change change;
        change.reason = to_string(asked.action);
        return change;
      },
      [](placement_atom) {
        rebalancer_status status;
        status.drained = {"expert-1"};
        return status;
      },
  };
}

/// Keeps the error.
class error_listener final : public generation_listener {
 public:
  void on_tokens(uint32_t, const std::vector<generated_token>&, finish_reason) override {}

  void on_prompt_logprobs(const std::vector<generated_token>&) override {}

  void on_error(ec code, const std::string& text) override { heard.set_value({code, text}); }

  std::promise<backend_error> heard;
};

class actor_backend_test : public testing::Test {
 protected:
  actor_backend_test() : system_(configured(config_)), gateway_(system_.spawn(refusing_gateway)) {}

  ~actor_backend_test() override { caf::anon_send(gateway_, caf::tick_atom_v); }

  static caf::actor_system_config& configured(caf::actor_system_config& config) {
    configure(config);
    return config;
  }

  template <class T>
  static T wait_for(std::promise<T>& promise) {
    auto future = promise.get_future();
    if (future.wait_for(std::chrono::seconds{10}) != std::future_status::ready)
      throw std::runtime_error("no answer");
    return future.get();
  }

  caf::actor_system_config config_;
  caf::actor_system system_;
  gateway_actor gateway_;
  std::shared_ptr<std::atomic<uint32_t>> max_model_len_ = std::make_shared<std::atomic<uint32_t>>(0);
};

} // namespace

TEST_F(actor_backend_test, a_refusal_reaches_the_listener_with_its_code) {
  const auto backend = make_actor_backend(system_, gateway_, max_model_len_);
  const auto listener = std::make_shared<error_listener>();
  generation_job job;
  job.prompt = {1, 2, 3};
  const auto handle = backend->start(job, listener);
  const backend_error error = wait_for(listener->heard);
  EXPECT_EQ(error.code, ec::overloaded);
  EXPECT_EQ(error.text, "full");
  // The session is gone: telling it anything does no harm.
  handle->stop(0);
  handle->cancel();
}

TEST_F(actor_backend_test, a_job_that_follows_says_so) {
  const auto backend = make_actor_backend(system_, gateway_, max_model_len_);
  const auto listener = std::make_shared<error_listener>();
  generation_job job;
  job.prompt = {1, 2, 3};
  job.follows = true;
  const auto handle = backend->start(job, listener);
  EXPECT_EQ(wait_for(listener->heard).text, "full, and it follows");
}

TEST_F(actor_backend_test, view_status_and_history_are_the_gateways) {
  const auto backend = make_actor_backend(system_, gateway_, max_model_len_);
  std::promise<std::variant<last_view, backend_error>> view;
  backend->view([&view](auto answer) { view.set_value(std::move(answer)); });
  const auto known = std::get<last_view>(wait_for(view));
  EXPECT_TRUE(known.cluster.ready);
  EXPECT_TRUE(known.scheduler_away);
  std::promise<std::variant<scheduler_status, backend_error>> status;
  backend->status([&status](auto answer) { status.set_value(std::move(answer)); });
  const auto answer = wait_for(status);
  EXPECT_EQ(std::get<backend_error>(answer).code, ec::not_ready);
  EXPECT_EQ(std::get<backend_error>(answer).text, "no scheduler");
  std::promise<std::variant<history_snapshot, backend_error>> history;
  backend->history(7, [&history](auto found) { history.set_value(std::move(found)); });
  EXPECT_EQ(std::get<history_snapshot>(wait_for(history)).tokens, 7U) << "as many windows as were asked for";
}

TEST_F(actor_backend_test, commands_reach_the_gateway_and_their_errors_keep_their_code) {
  const auto backend = make_actor_backend(system_, gateway_, max_model_len_);
  const auto change = [&](const placement_command& command) {
    std::promise<std::variant<placement_change, backend_error>> told;
    backend->change_placement(command, [&told](auto answer) { told.set_value(std::move(answer)); });
    return wait_for(told);
  };
  placement_command command;
  command.action = placement_action::pause;
  EXPECT_EQ(std::get<placement_change>(change(command)).reason, "pause");
  command.action = placement_action::drain;
  command.worker = "expert-9";
  const auto refused = std::get<backend_error>(change(command));
  EXPECT_EQ(refused.code, ec::bad_request);
  EXPECT_EQ(refused.text, "no expert worker is named 'expert-9'");
  std::promise<std::variant<rebalancer_status, backend_error>> status;
  backend->placement([&status](auto answer) { status.set_value(std::move(answer)); });
  EXPECT_EQ(std::get<rebalancer_status>(wait_for(status)).drained, std::vector<std::string>{"expert-1"});
}

} // namespace troupe
