#include "actors/transport/fabric/peer_meeting.hpp"

#include <algorithm>
#include <exception>

namespace troupe::wire {

namespace {

using namespace std::chrono_literals;

// After the refusal "connecting the other way": long enough for that connection to come up, short against any
// deadline.
constexpr auto retry_pause = 50ms;

} // namespace

peer_meeting::host::~host() = default;

void peer_meeting::start(std::string endpoint, clock::time_point first_tick) {
  endpoint_ = std::move(endpoint);
  next_tick_ = next_heartbeat_ = first_tick;
}

introduction peer_meeting::introduce(std::uint64_t token) const {
  return {settings_.node,
          settings_.fingerprint,
          endpoint_,
          token,
          settings_.window.bytes,
          settings_.window.frames,
          {},
          {},
          protocol_versions(),
          settings_.kinds,
          settings_.role};
}

void peer_meeting::connect(const std::string& endpoint, clock::time_point deadline,
                           fabric::on_connected done) {
  if (!endpoint_.empty() && endpoint == endpoint_) {
    done({nullptr, true, {}});
    return;
  }
  const auto known = std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) {
    return peer->dialled == endpoint || peer->peer.endpoint == endpoint;
  });
  if (known != peers_.end()) {
    done({*known, false, {}});
    return;
  }
  attempts_[endpoint].waiters.push_back({deadline, std::move(done)});
  start_dialling(endpoint);
}

void peer_meeting::start_dialling(const std::string& endpoint) {
  if (std::exchange(attempts_[endpoint].dialling, true))
    return;
  try {
    owner_.dial(endpoint);
  } catch (const std::exception& e) {
    settle(endpoint, {nullptr, false, e.what()});
  }
}

std::optional<std::pair<refusal, std::string>> peer_meeting::admit(const introduction& guest) {
  if (guest.node == settings_.node)
    return std::pair{refusal::self, std::string{"this is the same process"}};
  const bool ours_wins = settings_.node < guest.node;
  if (const auto known = find_node(guest.node)) {
    if (ours_wins && !known->dialled.empty() && !owner_.has_closed(known))
      return std::pair{refusal::connected, std::string{"already connected"}};
    owner_.fail(known, "superseded by a new connection of the same peer");
  }
  if (const auto i = attempts_.find(guest.endpoint); i != attempts_.end()) {
    if (ours_wins && i->second.dialling)
      return std::pair{refusal::connected, std::string{"connecting the other way"}};
    i->second.dialling = false;
    owner_.stop_dialling(guest.endpoint);
  }
  return std::nullopt;
}

bool peer_meeting::keeps(const introduction& peer, const std::string& dialled) {
  const auto known = find_node(peer.node);
  if (!known)
    return true;
  // Both have dialled, and the endpoints did not show that the peer is the same.
  if (!dialled.empty() && peer.node < settings_.node) {
    settle(dialled, {known, false, {}});
    return false;
  }
  owner_.fail(known, "superseded by the connection that takes precedence");
  return true;
}

void peer_meeting::add(const peer_connection_ptr& peer, clock::time_point now) {
  peer->last_heard = now;
  peers_.push_back(peer);
}

void peer_meeting::settle(const peer_connection_ptr& peer) {
  settle(peer->dialled, {peer, false, {}});
  settle(peer->peer.endpoint, {peer, false, {}});
}

void peer_meeting::settle(const std::string& endpoint, const fabric::connection& result) {
  const auto waiting = attempts_.extract(endpoint);
  if (!waiting)
    return;
  if (waiting.mapped().dialling)
    owner_.stop_dialling(endpoint);
  for (const auto& one : waiting.mapped().waiters)
    one.done(result);
}

void peer_meeting::missed(const std::string& endpoint, const std::string& error,
                          std::optional<refusal> reason, const std::string& node, clock::time_point now) {
  const auto i = attempts_.find(endpoint);
  if (i == attempts_.end())
    return;
  i->second.dialling = false;
  if (reason == refusal::self)
    settle(endpoint, {nullptr, true, {}});
  else if (reason != refusal::connected)
    settle(endpoint, {nullptr, false, "cannot connect to " + endpoint + ": " + error});
  else if (const auto known = find_node(node))
    settle(endpoint, {known, false, {}});
  else
    i->second.retry_at = now + retry_pause;
}

void peer_meeting::tick(clock::time_point now) {
  if (const auto pause = now - next_tick_; pause > tick_interval)
    for (const auto& peer : peers_)
      peer->last_heard = std::min(now, peer->last_heard + pause);
  next_tick_ = now + tick_interval;
  const auto peers = peers_;
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + settings_.heartbeat;
    for (const auto& peer : peers)
      owner_.send_heartbeat(peer);
  }
  for (const auto& peer : peers)
    if (now - peer->last_heard >= settings_.silence)
      owner_.fail(peer, "silent for " + std::to_string(settings_.silence.count()) + " ms");
  tick_attempts(now);
}

void peer_meeting::tick_attempts(clock::time_point now) {
  std::vector<fabric::on_connected> late;
  std::vector<std::string> again;
  for (auto i = attempts_.begin(); i != attempts_.end();) {
    auto& waiters = i->second.waiters;
    for (auto& one : waiters)
      if (now >= one.deadline)
        late.push_back(std::move(one.done));
    std::erase_if(waiters, [now](const auto& one) { return now >= one.deadline; });
    if (waiters.empty()) {
      owner_.stop_dialling(i->first);
      i = attempts_.erase(i);
      continue;
    }
    if (!i->second.dialling && now >= i->second.retry_at)
      again.push_back(i->first);
    ++i;
  }
  for (const auto& done : late)
    done({nullptr, false, "no connection within the deadline"});
  for (const auto& endpoint : again)
    if (attempts_.contains(endpoint))
      start_dialling(endpoint);
}

peer_connection_ptr peer_meeting::find_node(const std::string& node) const {
  const auto i =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) { return peer->peer.node == node; });
  return i == peers_.end() ? nullptr : *i;
}

} // namespace troupe::wire
