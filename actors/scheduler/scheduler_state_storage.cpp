// scheduler_state: its lease on the state directory, and what it saves for its successor. Serving waits for
// neither, except that a term is durable before anybody hears of it.
#include <memory>
#include <utility>

#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

// ---------------------------------------------------------------------------------------------------------------
// The lease

caf::error scheduler_state::take_newer_term(const worker_hello& hello) {
  const auto& who = hello.address.name;
  if (!std::exchange(is_raising_, true)) {
    auto self = self_;
    self_->request(keeper_, defaults::save_timeout, caf::update_atom_v, hello.term)
        .then(
            [self, who](uint64_t term) {
              auto& state = self->state;
              state.is_raising_ = false;
              if (term <= state.term_)
                return;
              state.raise_term(term - 1, who);
              state.act_soon();
            },
            [self](const caf::error& error) {
              self->state.is_raising_ = false;
              self->state.lease_failed(error);
            });
  }
  return make_error(ec::not_ready, "'" + who + "' has seen term " + std::to_string(hello.term)
                                       + ", this scheduler has " + std::to_string(term_)
                                       + " and takes a newer one first");
}

void scheduler_state::renew_lease() {
  if (!keeper_)
    return;
  if (renewing_since_) {
    if (now() - *renewing_since_ > defaults::scheduler_lease && !std::exchange(has_told_lease_, true))
      event("lease-not-renewed", "the state directory does not answer: a standby may take over");
    return;
  }
  if (now() < renew_next_)
    return;
  renewing_since_ = now();
  renew_next_ = now() + defaults::scheduler_lease_interval;
  auto self = self_;
  self_->request(keeper_, defaults::save_timeout, caf::tick_atom_v)
      .then([self] { self->state.renewed_lease(); },
            [self](const caf::error& error) {
              self->state.renewing_since_.reset();
              self->state.lease_failed(error);
            });
}

void scheduler_state::renewed_lease() {
  renewing_since_.reset();
  has_told_lease_ = false;
  if (!doubted_until_)
    return;
  doubted_until_.reset();
  act_soon();
}

void scheduler_state::lease_failed(const caf::error& error) {
  if (code_of(error) == ec::stale_term) {
    event("lease-lost", text_of(error));
    shut_down();
    self_->quit(error);
  } else if (!std::exchange(has_told_lease_, true)) {
    event("lease-not-renewed", text_of(error));
  }
}

// ---------------------------------------------------------------------------------------------------------------
// What is saved

void scheduler_state::save() {
  if (!writer_)
    return;
  is_unsaved_ = true;
  if (saving_since_ || now() < save_not_before_)
    return; // the newest, once that is through
  is_unsaved_ = false;
  saving_since_ = now();
  stored_cluster stored{members_.identity(), published_.experts, {}};
  if (tracing_)
    stored.traced_ppm = tracing_->share_ppm;
  for (const auto& worker : published_.workers)
    if (worker.role != worker_role::gateway)
      stored.workers.push_back(worker);
  auto self = self_;
  self_
      ->request(writer_, defaults::save_timeout, caf::put_atom_v,
                std::make_shared<const stored_cluster>(std::move(stored)))
      .then(
          [self] {
            self->state.has_told_slow_save_ = false;
            self->state.save_later();
          },
          [self](const caf::error& error) {
            auto& state = self->state;
            // A placement of a term that is over: whatever is newer waits to be saved, or is a successor's.
            if (code_of(error) != ec::stale_term) {
              state.event("placement-not-saved", text_of(error));
              state.is_unsaved_ = true;
              state.save_not_before_ = state.now() + defaults::slow_save;
            }
            state.save_later();
          });
}

void scheduler_state::save_later() {
  saving_since_.reset();
  if (is_unsaved_)
    save();
}

void scheduler_state::watch_disk() {
  if (saving_since_ && now() - *saving_since_ > defaults::slow_save
      && !std::exchange(has_told_slow_save_, true))
    event("placement-not-saved",
          "the disk of the state directory has not taken it yet; a successor that starts now "
          "knows an older one");
  if (is_unsaved_ && !saving_since_)
    save();
}

} // namespace troupe
