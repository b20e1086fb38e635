#include "actors/scheduler/state_directory.hpp"

#include <memory>
#include <utility>

#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"

namespace troupe {

state_directory::state_directory(scheduler_interface::pointer self, const scheduler_storage& storage,
                                 term_ledger& terms, listener tells)
    : self_(self),
      writer_(storage.writer),
      keeper_(storage.keeper),
      terms_(&terms),
      tells_(std::move(tells)) {}

caf::error state_directory::take_newer_term(const worker_hello& hello) {
  const auto& name = hello.address.name;
  if (terms_->begin_raise())
    self_->request(keeper_, defaults::save_timeout, caf::update_atom_v, hello.term)
        .then(
            [this, name](std::uint64_t term) {
              terms_->end_raise();
              if (term > terms_->term())
                tells_.raise_term(term - 1, name);
            },
            [this](const caf::error& error) {
              terms_->end_raise();
              lease_failed(error);
            });
  return make_error(ec::not_ready, "'" + name + "' has seen term " + std::to_string(hello.term)
                                       + ", this scheduler has " + std::to_string(terms_->term())
                                       + " and takes a newer one first");
}

void state_directory::renew_lease() {
  if (!keeper_)
    return;
  tells_.report(terms_->check_renewal(self_->clock().now()));
  if (!terms_->begin_renewal(self_->clock().now()))
    return;
  self_->request(keeper_, defaults::save_timeout, caf::tick_atom_v)
      .then(
          [this] {
            if (terms_->renewed())
              tells_.confirmed();
          },
          [this](const caf::error& error) {
            terms_->end_renewal();
            lease_failed(error);
          });
}

void state_directory::lease_failed(const caf::error& error) {
  if (code_of(error) == ec::stale_term) {
    tells_.report({{"lease-lost", text_of(error)}});
    tells_.lost(error);
  } else {
    tells_.report(terms_->failed(error));
  }
}

void state_directory::save() {
  if (writer_ && saves_.begin(self_->clock().now()))
    write();
}

void state_directory::check_disk() {
  tells_.report(saves_.check(self_->clock().now()));
  write_next();
}

void state_directory::write_next() {
  if (saves_.begin_next(self_->clock().now()))
    write();
}

void state_directory::write() {
  self_
      ->request(writer_, defaults::save_timeout, caf::put_atom_v,
                std::make_shared<const stored_cluster>(tells_.snapshot()))
      .then(
          [this] {
            saves_.succeeded();
            write_next();
          },
          [this](const caf::error& error) {
            tells_.report(saves_.failed(error, self_->clock().now()));
            write_next();
          });
}

} // namespace troupe
