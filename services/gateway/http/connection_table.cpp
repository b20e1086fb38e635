#include "services/gateway/http/connection_table.hpp"

#include <utility>

namespace troupe::http {

connection_table::connection_table(std::size_t most, std::size_t most_per_peer)
    : most_(most), peers_(most_per_peer) {}

void connection_table::enter_idle(entries::iterator at) {
  if (!at->peer)
    return;
  idle_entries& own = idle_by_peer_[at->peer->client_network()];
  at->among_peers = own.insert(own.end(), at);
}

void connection_table::leave_idle(entries::iterator at) {
  if (!at->peer)
    return;
  const auto own = idle_by_peer_.find(at->peer->client_network());
  own->second.erase(at->among_peers);
  if (own->second.empty())
    idle_by_peer_.erase(own);
}

std::function<void()> connection_table::take_place(entries::iterator victim) {
  leave_idle(victim);
  if (victim->peer)
    peers_.remove(*victim->peer);
  victim->lost = true;
  lost_.splice(lost_.end(), idle_, victim);
  return std::exchange(victim->on_loss, nullptr);
}

connection_table::admission connection_table::admit(const std::optional<network_address>& peer) {
  admission result;
  std::function<void()> close;
  {
    const std::lock_guard lock{mutex_};
    const bool is_full = idle_.size() + busy_.size() >= most_;
    if (is_full && idle_.empty())
      return result;
    if (peer && !peers_.add(*peer)) {
      const auto own = idle_by_peer_.find(peer->client_network());
      if (own == idle_by_peer_.end()) {
        result.result = outcome::peer_full;
        return result;
      }
      close = take_place(own->second.front());
      peers_.add(*peer);
      result.made_room = true;
    } else if (is_full) {
      close = take_place(idle_.begin());
      result.made_room = true;
    }
    entry fresh;
    fresh.peer = peer;
    const auto at = idle_.insert(idle_.end(), std::move(fresh));
    enter_idle(at);
    result.taken = std::make_unique<place>(*this, at);
    result.result = outcome::admitted;
  }
  if (close)
    close();
  return result;
}

std::size_t connection_table::size() const {
  const std::lock_guard lock{mutex_};
  return idle_.size() + busy_.size();
}

connection_table::place::~place() {
  const std::lock_guard lock{table_.mutex_};
  if (at_->lost) {
    table_.lost_.erase(at_);
    return;
  }
  if (at_->peer)
    table_.peers_.remove(*at_->peer);
  if (!busy_)
    table_.leave_idle(at_);
  (busy_ ? table_.busy_ : table_.idle_).erase(at_);
}

void connection_table::place::on_loss(std::function<void()> close) {
  {
    const std::lock_guard lock{table_.mutex_};
    if (!at_->lost) {
      at_->on_loss = std::move(close);
      return;
    }
  }
  close();
}

bool connection_table::place::begin_request() {
  const std::lock_guard lock{table_.mutex_};
  if (at_->lost)
    return false;
  if (!busy_) {
    table_.leave_idle(at_);
    table_.busy_.splice(table_.busy_.end(), table_.idle_, at_);
  }
  busy_ = true;
  return true;
}

void connection_table::place::end_request() {
  const std::lock_guard lock{table_.mutex_};
  if (busy_) {
    table_.idle_.splice(table_.idle_.end(), table_.busy_, at_);
    table_.enter_idle(at_);
  }
  busy_ = false;
}

} // namespace troupe::http
