// The interface between HTTP and actors, with a scripted gateway actor.
#include <chrono>
#include <future>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <gtest/gtest.h>

#include "actors/cluster/directory.hpp"
#include "actors/protocol/rebalancer_actor.hpp"
#include "actors/protocol/type_ids.hpp"
#include "services/gateway/actor_backend.hpp"

namespace troupe {

namespace {

/// Refuses every request as overloaded, and knows a view.
gateway_actor::behavior_type refusing_gateway(gateway_actor::pointer self) {
  return {
      [](const admission_request& request) -> caf::result<assignment> {
        return make_error(ec::overloaded, request.follows ? "full, and it follows" : "full");
      },
      [](done_atom, request_id) {},
      [](done_atom, request_id, std::uint32_t) {},
      [](silent_atom, request_id, std::uint64_t) {},
      [](caf::resolve_atom, const worker_address&) -> caf::result<caf::strong_actor_ptr> {
        return make_error(ec::peer_down, "nobody");
      },
      [](const cluster_view&) {},
      [](scheduler_atom, const caf::strong_actor_ptr&) {},
      [self](caf::tick_atom) { self->quit(); },
      [](caf::join_atom) { return worker_hello{}; },
      [](load_atom) { return lease_renewal{}; },
      [](caf::get_atom) -> caf::result<cluster_view, bool, bool> {
        cluster_view view;
        view.ready = true;
        return {view, true, true};
      },
  };
}

/// Keeps the error.
class error_listener final : public generation_listener {
 public:
  void on_tokens(std::uint32_t, const std::vector<generated_token>&, finish_reason) override {}

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
  std::shared_ptr<std::atomic<std::uint32_t>> max_model_len_ =
      std::make_shared<std::atomic<std::uint32_t>>(0);
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
  // The session is gone: messages to it do no harm.
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

TEST_F(actor_backend_test, the_view_is_the_gateways) {
  const auto backend = make_actor_backend(system_, gateway_, max_model_len_);
  std::promise<std::variant<last_view, backend_error>> view;
  backend->view([&view](auto answer) { view.set_value(std::move(answer)); });
  const auto known = std::get<last_view>(wait_for(view));
  EXPECT_TRUE(known.cluster.ready);
  EXPECT_TRUE(known.scheduler_away);
  EXPECT_TRUE(known.has_been_ready);
}

TEST_F(actor_backend_test, answers_of_services_and_their_errors_with_code_and_text) {
  const auto directory = system_.spawn(local_directory);
  const auto rebalancer = system_.spawn([](rebalancer_actor::pointer) -> rebalancer_actor::behavior_type {
    return {[](const placement_command& asked) -> caf::result<placement_change> {
              if (asked.action == placement_action::drain)
                return make_error(ec::bad_request, "no expert worker is named '" + asked.worker + "'");
              placement_change change;
              change.reason = to_string(asked.action);
              return change;
            },
            [](status_atom) { return rebalancer_status{}; }, [](caf::tick_atom) {}};
  });
  caf::anon_send(directory, caf::publish_atom_v, "rebalancer",
                 caf::actor_cast<caf::strong_actor_ptr>(rebalancer));
  const auto control = make_actor_control(system_, {directory});
  const auto ask = [&](const control_question& question) {
    std::promise<control_outcome> told;
    control->ask(question, [&told](auto answer) { told.set_value(std::move(answer)); });
    return wait_for(told);
  };
  placement_command command;
  command.action = placement_action::pause;
  EXPECT_EQ(std::get<placement_change>(std::get<control_answer>(ask(command))).reason, "pause");
  command.action = placement_action::drain;
  command.worker = "expert-9";
  const auto refused = std::get<backend_error>(ask(command));
  EXPECT_EQ(refused.code, ec::bad_request);
  EXPECT_EQ(refused.text, "no expert worker is named 'expert-9'");
  const auto away = std::get<backend_error>(ask(status_question{}));
  EXPECT_EQ(away.code, ec::not_ready);
  EXPECT_EQ(away.text, "the scheduler is away");
  caf::anon_send_exit(directory, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(rebalancer, caf::exit_reason::user_shutdown);
}

} // namespace troupe
