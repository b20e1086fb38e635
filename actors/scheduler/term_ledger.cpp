#include "actors/scheduler/term_ledger.hpp"

#include <utility>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

/// Incarnations of workers that one scheduler remembers; forgetting costs a needless new term.
constexpr std::size_t max_welcomed = 4096;

} // namespace

bool term_ledger::is_ahead(const worker_hello& hello) const {
  return hello.term > term_ || (hello.term == term_ && !welcomed_.contains(hello.address.id));
}

void term_ledger::welcome(worker_id id) {
  if (welcomed_.size() >= max_welcomed)
    welcomed_.clear();
  welcomed_.insert(id);
}

operator_event term_ledger::raise(std::uint64_t above, const std::string& name, std::set<worker_id> present) {
  term_ = above + 1;
  welcomed_ = std::move(present);
  return {"term-raised",
          name + " has seen term " + std::to_string(above) + ", this is now " + std::to_string(term_)};
}

bool term_ledger::begin_raise() {
  return !std::exchange(is_raising_, true);
}

bool term_ledger::begin_renewal(time_point now) {
  if (renewing_since_ || now < renew_next_)
    return false;
  renewing_since_ = now;
  renew_next_ = now + defaults::scheduler_lease_interval;
  return true;
}

std::optional<operator_event> term_ledger::check_renewal(time_point now) {
  if (!renewing_since_ || now - *renewing_since_ <= defaults::scheduler_lease
      || std::exchange(has_told_, true))
    return std::nullopt;
  return operator_event{"lease-not-renewed", "the state directory does not answer: a standby may take over"};
}

bool term_ledger::renewed() {
  renewing_since_.reset();
  has_told_ = false;
  return std::exchange(doubted_until_, std::nullopt).has_value();
}

std::optional<operator_event> term_ledger::failed(const caf::error& error) {
  if (std::exchange(has_told_, true))
    return std::nullopt;
  return operator_event{"lease-not-renewed", text_of(error)};
}

} // namespace troupe
