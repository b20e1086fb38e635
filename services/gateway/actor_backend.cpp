#include "services/gateway/actor_backend.hpp"

#include <atomic>
#include <random>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/gateway/session.hpp"
#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

backend_error as_backend_error(const caf::error& error) {
  return {is_peer_down(error) ? ec::peer_down : code_of(error), text_of(error)};
}

/// A session's listener that speaks the backend's language.
class session_events final : public session_listener {
 public:
  explicit session_events(std::shared_ptr<generation_listener> to) : to_(std::move(to)) {}

  void on_placed() override { to_->on_placed(); }

  void on_tokens(std::uint32_t choice, const std::vector<generated_token>& tokens,
                 finish_reason reason) override {
    to_->on_tokens(choice, tokens, reason);
  }

  void on_cached_tokens(std::uint32_t num_tokens) override { to_->on_cached_tokens(num_tokens); }

  void on_prompt_logprobs(const std::vector<generated_token>& tokens) override {
    to_->on_prompt_logprobs(tokens);
  }

  void on_error(const caf::error& error) override {
    const backend_error translated = as_backend_error(error);
    to_->on_error(translated.code, translated.text);
  }

 private:
  std::shared_ptr<generation_listener> to_;
};

class session_handle final : public generation_handle {
 public:
  explicit session_handle(session_actor session) : session_(std::move(session)) {}

  void stop(std::uint32_t choice) override { caf::anon_send(session_, stop_atom_v, choice); }

  void cancel() override { caf::anon_send(session_, cancel_atom_v); }

 private:
  session_actor session_;
};

class actor_backend final : public generation_backend {
 public:
  actor_backend(caf::actor_system& system, gateway_actor gateway,
                std::shared_ptr<const std::atomic<std::uint32_t>> max_model_len, request_events log)
      : system_(system),
        gateway_(std::move(gateway)),
        max_model_len_(std::move(max_model_len)),
        prefix_(std::uint64_t{std::random_device{}()} << 32),
        log_(std::move(log)) {}

  std::unique_ptr<generation_handle> start(generation_job job,
                                           std::shared_ptr<generation_listener> listener) override {
    session_request request;
    request.id = {prefix_ | (next_request_.fetch_add(1) & 0xFFFFFFFFU)};
    request.prompt = std::move(job.prompt);
    request.sampling = std::move(job.sampling);
    request.num_choices = job.num_choices;
    request.priority = job.priority;
    request.open_ended = job.open_ended;
    request.follows = job.follows;
    request.tenant = std::move(job.tenant);
    request.weight = job.weight;
    request.cache_salt = std::move(job.cache_salt);
    request.context = std::move(job.context);
    request.log = log_;
    return std::make_unique<session_handle>(spawn_session(
        system_, gateway_, std::move(request), std::make_shared<session_events>(std::move(listener))));
  }

  std::uint32_t max_model_len() const override { return max_model_len_->load(); }

  void view(std::function<void(std::variant<last_view, backend_error>)> then) override {
    system_.spawn([gateway = gateway_, then](caf::event_based_actor* self) {
      self->request(gateway, defaults::local_request, caf::get_atom_v)
          .then(
              [then](cluster_view& cluster, bool away, bool has_been_ready) {
                then(last_view{std::move(cluster), away, has_been_ready});
              },
              [then](const caf::error& error) { then(as_backend_error(error)); });
    });
  }

 private:
  caf::actor_system& system_;
  gateway_actor gateway_;
  const std::shared_ptr<const std::atomic<std::uint32_t>> max_model_len_;
  const std::uint64_t prefix_;
  const request_events log_;
  std::atomic<std::uint64_t> next_request_{1};
};

class actor_control final : public control_backend {
 public:
  actor_control(caf::actor_system& system, control_services services)
      : system_(system), services_(std::move(services)) {}

  void ask(const control_question& question, std::function<void(control_outcome)> then) override {
    ask_service(system_, services_, question, [then](caf::expected<control_answer> answer) {
      if (answer)
        then(std::move(*answer));
      else
        then(as_backend_error(answer.error()));
    });
  }

 private:
  caf::actor_system& system_;
  const control_services services_;
};

} // namespace

std::shared_ptr<generation_backend>
make_actor_backend(caf::actor_system& system, gateway_actor gateway,
                   std::shared_ptr<const std::atomic<std::uint32_t>> max_model_len, request_events log) {
  return std::make_shared<actor_backend>(system, std::move(gateway), std::move(max_model_len),
                                         std::move(log));
}

std::shared_ptr<control_backend> make_actor_control(caf::actor_system& system, control_services services) {
  return std::make_shared<actor_control>(system, std::move(services));
}

} // namespace troupe
