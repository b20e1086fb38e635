// scheduler_state: tells all members what is to be traced.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <caf/actor_cast.hpp>

#include "actors/cluster/trace_control.hpp"
#include "actors/scheduler/scheduler_state.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

constexpr double million = 1e6;

/// A command that members are being told.
struct open_command {
  caf::typed_response_promise<trace_receipt> promise;
  trace_receipt receipt;
  size_t missing = 0;
};

std::string described(const trace_command& command) {
  return command.share_ppm == 0 ? "stops"
                                : "traces " + std::to_string(command.share_ppm) + " of a million requests";
}

void settle(open_command& open, const trace_receipt& part) {
  open.receipt.processes.insert(open.receipt.processes.end(), part.processes.begin(), part.processes.end());
  if (--open.missing == 0)
    open.promise.deliver(std::move(open.receipt));
}

} // namespace

caf::result<trace_receipt> scheduler_state::trace(const trace_command& command) {
  auto open = std::make_shared<open_command>();
  open->promise = self_->make_response_promise<trace_receipt>();
  tracing_ = command;
  told_before_.reset();
  if (last_publication_) // otherwise the first one saves it; until then there is a placement on disk to keep
    save();
  open->missing = contacts_.size() + 1;
  event("tracing", described(command) + ", as told");
  for (const auto& [id, entry] : contacts_) {
    const auto* member = members_.find(id);
    const auto who = member == nullptr ? std::string{"a worker that is gone"} : member->hello.address.name;
    self_->request(caf::actor_cast<trace_control_actor>(entry.member), defaults::local_request, command)
        .then([open](const trace_receipt& part) { settle(*open, part); },
              [open, who](const caf::error& error) {
                settle(*open, {{{who, "it does not answer: " + text_of(error)}}});
              });
  }
  settle(*open, {{{"scheduler", timeline::start(command.share_ppm / million)}}});
  return open->promise;
}

void scheduler_state::recall_trace(const worker_hello& hello) {
  if (!told_before_ || hello.term == 0)
    return;
  tracing_ = std::exchange(told_before_, std::nullopt);
  event("tracing", described(*tracing_) + ", as the scheduler before was told");
  timeline::start(tracing_->share_ppm / million);
  for (const auto& [id, entry] : contacts_) // the one that joins is told as any that does
    if (id != hello.address.id)
      trace_as_told(entry.member);
}

void scheduler_state::trace_as_told(const member_actor& joined) {
  if (!tracing_)
    return;
  self_->request(caf::actor_cast<trace_control_actor>(joined), defaults::local_request, *tracing_)
      .then([](const trace_receipt&) {},
            [](const caf::error&) {
              // It has gone again, or says at the next command why it does not trace.
            });
}

} // namespace troupe
