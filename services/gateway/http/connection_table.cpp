#include "services/gateway/http/connection_table.hpp"

#include <utility>

namespace troupe::http {

connection_table::connection_table(size_t most, size_t most_per_peer) : most_(most), peers_(most_per_peer) {}

connection_table::admission connection_table::admit(const std::optional<network_address>& peer) {
  admission result;
  std::function<void()> close;
  {
    const std::lock_guard lock{mutex_};
    if (idle_.size() + busy_.size() >= most_ && idle_.empty())
      return result;
    if (peer && !peers_.add(*peer)) {
      result.result = outcome::peer_full;
      return result;
    }
    if (idle_.size() + busy_.size() >= most_) {
      const auto victim = idle_.begin();
      if (victim->peer)
        peers_.remove(*victim->peer);
      victim->lost = true;
      close = std::exchange(victim->on_loss, nullptr);
      lost_.splice(lost_.end(), idle_, victim);
      result.made_room = true;
    }
    entry fresh;
    fresh.peer = peer;
    const auto at = idle_.insert(idle_.end(), std::move(fresh));
    result.taken = std::make_unique<place>(*this, at);
    result.result = outcome::admitted;
  }
  if (close)
    close();
  return result;
}

size_t connection_table::size() const {
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
  if (!busy_)
    table_.busy_.splice(table_.busy_.end(), table_.idle_, at_);
  busy_ = true;
  return true;
}

void connection_table::place::end_request() {
  const std::lock_guard lock{table_.mutex_};
  if (busy_)
    table_.idle_.splice(table_.idle_.end(), table_.busy_, at_);
  busy_ = false;
}

} // namespace troupe::http
