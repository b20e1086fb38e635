#include "actors/gateway/control_client.hpp"

#include <chrono>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/sec.hpp>

#include "actors/cluster/resolve_any.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/history_actor.hpp"
#include "actors/protocol/rebalancer_actor.hpp"
#include "actors/protocol/scheduler_actor.hpp"
#include "actors/protocol/trace_control_actor.hpp"

namespace troupe {

namespace {

using std::chrono::seconds;
using error_text = std::function<caf::error(const caf::error&)>;

/// "`subject` does not answer", with the reason.
error_text silent(const std::string& subject) {
  return [subject](const caf::error& error) {
    return make_error(ec::not_ready, subject + " does not answer: " + text_of(error));
  };
}

/// A command whose sender has no answer: the rebalancer may be carrying it out.
error_text unanswered_command(bool is_dry_run) {
  return [is_dry_run](const caf::error& error) -> caf::error {
    if (code_of(error) != ec::none)
      return error; // the rebalancer's own answer
    const std::string outcome = is_dry_run
                                    ? "nothing has been changed"
                                    : "the command may have been carried out all the same: look at the "
                                      "state of the placement before you repeat it";
    if (error == caf::sec::request_timeout)
      return make_error(ec::deadline_exceeded, "the rebalancer did not answer in time; " + outcome);
    return make_error(ec::peer_down, "the rebalancer is gone: " + text_of(error) + "; " + outcome);
  };
}

/// One question on its way. Each overload of `put` says of one kind of question: the service and its
/// interface, its answer, how long the service may take, and the errors. It returns the deadline of the
/// whole, without the time for finding the service.
class control_flight {
 public:
  control_flight(caf::event_based_actor* self, control_services services,
                 std::function<void(caf::expected<control_answer>)> then)
      : self_(self), services_(std::move(services)), then_(std::move(then)) {}

  seconds put(const status_question&) const {
    const auto away = [](const caf::error&) { return make_error(ec::not_ready, "the scheduler is away"); };
    return ask<scheduler_actor, scheduler_status>("scheduler", defaults::local_request, away,
                                                  silent("the scheduler"), status_atom_v);
  }

  seconds put(const history_question& question) const {
    return ask<history_actor, history_snapshot>("history", defaults::local_request, silent("the history"),
                                                silent("the history"), history_atom_v, question.max_windows);
  }

  seconds put(const placement_question&) const {
    return ask<rebalancer_actor, rebalancer_status>("rebalancer", defaults::local_request,
                                                    silent("the rebalancer"), silent("the rebalancer"),
                                                    status_atom_v);
  }

  seconds put(const placement_command& command) const {
    return defaults::local_request
           + ask<rebalancer_actor, placement_change>("rebalancer", defaults::placement_command,
                                                     silent("the rebalancer"),
                                                     unanswered_command(command.dry_run), command);
  }

  seconds put(const trace_command& command) const {
    return ask<trace_control_actor, trace_receipt>("scheduler", 2 * defaults::local_request,
                                                   silent("the scheduler"), silent("the scheduler"), command);
  }

 private:
  /// @param patience     how long the service may take
  /// @param unreachable  the error if no endpoint has the service
  /// @param unanswered   the error if the service was asked
  template <class Handle, class Answer, class... Parts>
  seconds ask(const std::string& service, seconds patience, error_text unreachable, error_text unanswered,
              Parts... question) const {
    resolve_any(
        self_, services_.directory, services_.endpoints, service, *services_.active,
        [self = self_, then = then_, active = services_.active, patience, unanswered,
         question...](const caf::strong_actor_ptr& handle, std::size_t endpoint) {
          *active = endpoint;
          self->request(caf::actor_cast<Handle>(handle), patience, question...)
              .then(
                  [self, then](Answer& answer) {
                    then(control_answer{std::move(answer)});
                    self->quit();
                  },
                  [self, then, active, unanswered](const caf::error& error) {
                    if (code_of(error) == ec::none)
                      ++*active; // it stands still or is gone: the next question goes to its standby
                    then(unanswered(error));
                    self->quit();
                  });
        },
        [self = self_, then = then_, unreachable](const caf::error& error) {
          then(unreachable(error));
          self->quit();
        });
    return patience;
  }

  caf::event_based_actor* self_;
  control_services services_;
  std::function<void(caf::expected<control_answer>)> then_;
};

} // namespace

void ask_service(caf::actor_system& system, const control_services& services,
                 const control_question& question, std::function<void(caf::expected<control_answer>)> then) {
  system.spawn([services, question, then](caf::event_based_actor* self) -> caf::behavior {
    const control_flight flight(self, services, then);
    const auto put = [&flight](const auto& asked) { return flight.put(asked); };
    self->delayed_send(self, std::visit(put, question) + defaults::connect_timeout, caf::tick_atom_v);
    return {[self, then](caf::tick_atom) {
      then(caf::make_error(caf::sec::request_timeout));
      self->quit();
    }};
  });
}

} // namespace troupe
