#include "services/gateway/actor_backend.hpp"

#include <atomic>
#include <random>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include "actors/cluster/trace_control.hpp"
#include "actors/defaults.hpp"
#include "actors/gateway/session.hpp"

namespace troupe {

namespace {

/// The answers of scheduler and history come through the gateway, which has deadlines of its own for them.
constexpr auto status_deadline = defaults::local_request + defaults::connect_timeout;

/// Likewise, for a command to the rebalancer.
constexpr auto command_deadline =
    defaults::placement_command + defaults::local_request + defaults::connect_timeout;

backend_error as_backend_error(const caf::error& error) {
  return {is_peer_down(error) ? ec::peer_down : code_of(error), text_of(error)};
}

/// A session's listener that speaks the backend's language.
class session_events final : public session_listener {
 public:
  explicit session_events(std::shared_ptr<generation_listener> to) : to_(std::move(to)) {}

  void on_placed() override { to_->on_placed(); }

  void on_tokens(uint32_t choice, const std::vector<generated_token>& tokens, finish_reason reason) override {
    to_->on_tokens(choice, tokens, reason);
  }

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

  void stop(uint32_t choice) override { caf::anon_send(session_, stop_atom_v, choice); }

  void cancel() override { caf::anon_send(session_, cancel_atom_v); }

 private:
  session_actor session_;
};

class actor_backend final : public generation_backend {
 public:
  actor_backend(caf::actor_system& system, gateway_actor gateway,
                std::shared_ptr<const std::atomic<uint32_t>> max_model_len, request_events log)
      : system_(system),
        gateway_(std::move(gateway)),
        max_model_len_(std::move(max_model_len)),
        prefix_(uint64_t{std::random_device{}()} << 32),
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
    request.context = std::move(job.context);
    request.log = log_;
    return std::make_unique<session_handle>(spawn_session(
        system_, gateway_, std::move(request), std::make_shared<session_events>(std::move(listener))));
  }

  uint32_t max_model_len() const override { return max_model_len_->load(); }

  void view(std::function<void(std::variant<last_view, backend_error>)> then) override {
    ask(
        defaults::local_request, then,
        [then](cluster_view& cluster, bool away) {
          then(last_view{std::move(cluster), away});
        },
        caf::get_atom_v);
  }

  void status(std::function<void(std::variant<scheduler_status, backend_error>)> then) override {
    ask(
        status_deadline, then, [then](scheduler_status& status) { then(std::move(status)); }, status_atom_v);
  }

  void history(uint32_t max_windows,
               std::function<void(std::variant<history_snapshot, backend_error>)> then) override {
    ask(
        status_deadline, then, [then](history_snapshot& known) { then(std::move(known)); }, history_atom_v,
        max_windows);
  }

  void placement(std::function<void(std::variant<rebalancer_status, backend_error>)> then) override {
    ask(
        status_deadline, then, [then](rebalancer_status& status) { then(std::move(status)); },
        placement_atom_v);
  }

  void change_placement(placement_command command,
                        std::function<void(std::variant<placement_change, backend_error>)> then) override {
    ask(
        command_deadline, then, [then](placement_change& change) { then(std::move(change)); },
        std::move(command));
  }

  void trace(trace_command command,
             std::function<void(std::variant<trace_receipt, backend_error>)> then) override {
    ask_as<trace_control_actor>(
        status_deadline + defaults::local_request, then,
        [then](trace_receipt& receipt) { then(std::move(receipt)); }, command);
  }

 private:
  /// One question to the gateway by an actor that lives as long as the question.
  template <class Deadline, class Failed, class Answered, class... Parts>
  void ask(Deadline deadline, Failed failed, Answered answered, Parts... question) {
    ask_as<gateway_actor>(deadline, failed, answered, std::move(question)...);
  }

  /// Likewise, as another interface of it.
  template <class Handle, class Deadline, class Failed, class Answered, class... Parts>
  void ask_as(Deadline deadline, Failed failed, Answered answered, Parts... question) {
    system_.spawn([gateway = caf::actor_cast<Handle>(gateway_), deadline, failed, answered,
                   question...](caf::event_based_actor* self) {
      self->request(gateway, deadline, question...).then(answered, [failed](caf::error& error) {
        failed(as_backend_error(error));
      });
    });
  }

  caf::actor_system& system_;
  gateway_actor gateway_;
  const std::shared_ptr<const std::atomic<uint32_t>> max_model_len_;
  const uint64_t prefix_;
  const request_events log_;
  std::atomic<uint64_t> next_request_{1};
};

} // namespace

std::shared_ptr<generation_backend>
make_actor_backend(caf::actor_system& system, gateway_actor gateway,
                   std::shared_ptr<const std::atomic<uint32_t>> max_model_len, request_events log) {
  return std::make_shared<actor_backend>(system, std::move(gateway), std::move(max_model_len),
                                         std::move(log));
}

} // namespace troupe
