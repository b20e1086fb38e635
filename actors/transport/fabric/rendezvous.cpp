#include "actors/transport/fabric/rendezvous.hpp"

#include <array>

#include <arpa/inet.h>

namespace troupe::wire {

rendezvous::host::~host() = default;

rendezvous::rendezvous(poller& events, host& owner, cluster_secrets secrets,
                       std::chrono::milliseconds handshake_deadline, std::size_t max_guests)
    : events_(events),
      owner_(owner),
      secrets_(std::move(secrets)),
      handshake_deadline_(handshake_deadline),
      max_guests_(max_guests) {}

rendezvous::~rendezvous() {
  for (auto& [id, m] : meetings_)
    if (m->watch != 0)
      events_.forget(m->watch);
}

void rendezvous::listen(const endpoint_name& where) {
  listener_ = listen_on(where);
  port_ = bound_port(listener_);
  events_.watch(listener_.get(), false, [this] { on_acceptable(); });
}

void rendezvous::on_acceptable() {
  // Level-triggered: further connections are accepted in the next rounds.
  auto socket = accept_from(listener_);
  if (!socket)
    return;
  if (num_guests_ >= max_guests_) {
    owner_.log("guest-refused", "too many connections that have not authenticated themselves");
    return;
  }
  auto m = std::make_unique<meeting>();
  m->id = next_id_++;
  m->socket = std::move(socket);
  auto self = owner_.introduce();
  m->token = self.token;
  m->protocol.emplace(handshake::role::server, secrets_, std::move(self));
  m->deadline = clock::now() + handshake_deadline_;
  ++num_guests_;
  auto& ref = *meetings_.emplace(m->id, std::move(m)).first->second;
  watch(ref, false);
}

void rendezvous::dial(const std::string& endpoint) {
  const auto name = parse_endpoint(endpoint);
  auto m = std::make_unique<meeting>();
  const auto id = m->id = next_id_++;
  m->dialled = endpoint;
  m->deadline = clock::now() + handshake_deadline_;
  meetings_.emplace(id, std::move(m));
  std::array<unsigned char, sizeof(in6_addr)> binary;
  const bool numeric = inet_pton(AF_INET, name.host.c_str(), binary.data()) == 1
                       || inet_pton(AF_INET6, name.host.c_str(), binary.data()) == 1;
  if (numeric) {
    std::string error;
    auto addresses = look_up(name, false, error);
    on_addresses(id, std::move(addresses), error);
    return;
  }
  names_.start(name, [this, id](std::vector<socket_address> addresses, std::string error) {
    owner_.post([this, id, list = std::move(addresses), why = std::move(error)]() mutable {
      on_addresses(id, std::move(list), why);
    });
  });
}

void rendezvous::on_addresses(std::uint64_t id, std::vector<socket_address> addresses,
                              const std::string& error) {
  const auto i = meetings_.find(id);
  if (i == meetings_.end())
    return;
  i->second->addresses = std::move(addresses);
  try_next_address(*i->second, error);
}

void rendezvous::try_next_address(meeting& m, std::string error) {
  if (m.watch != 0)
    events_.forget(std::exchange(m.watch, 0));
  while (!m.addresses.empty()) {
    const auto address = m.addresses.front();
    m.addresses.erase(m.addresses.begin());
    m.socket = start_connect(address, error);
    if (m.socket) {
      m.connecting = true;
      watch(m, true);
      return;
    }
  }
  end(m, error.empty() ? "no address" : error, std::nullopt);
}

void rendezvous::watch(meeting& m, bool for_writing) {
  m.watch = events_.watch(m.socket.get(), for_writing, [this, id = m.id] { on_ready(id); });
}

void rendezvous::on_ready(std::uint64_t id) {
  const auto i = meetings_.find(id);
  if (i == meetings_.end())
    return;
  auto& m = *i->second;
  if (m.connecting) {
    if (auto error = connect_error(m.socket); !error.empty()) {
      try_next_address(m, std::move(error));
      return;
    }
    m.connecting = false;
    auto self = owner_.introduce();
    m.token = self.token;
    m.protocol.emplace(handshake::role::client, secrets_, std::move(self));
    advance(m);
    return;
  }
  std::array<std::byte, 4096> buffer;
  bool closed = false;
  const auto num_bytes = read_some(m.socket, buffer, closed);
  if (closed) {
    end(m, "the connection closed during the handshake", std::nullopt);
    return;
  }
  m.protocol->feed(std::span{buffer}.first(num_bytes));
  advance(m);
}

void rendezvous::advance(meeting& m) {
  auto& protocol = *m.protocol;
  if (protocol.current() == handshake::state::deciding) {
    if (const auto no = owner_.admit(protocol.peer()))
      protocol.refuse(no->first, no->second);
    else
      protocol.accept();
  }
  const bool intact = flush(m);
  switch (protocol.current()) {
  case handshake::state::waiting:
  case handshake::state::deciding:
    if (!intact)
      end(m, "the connection closed during the handshake", std::nullopt);
    return;
  case handshake::state::done:
    hand_over(m);
    return;
  case handshake::state::refused:
    end(m, protocol.error(), protocol.refused_with());
    return;
  case handshake::state::failed:
    end(m, protocol.error(), std::nullopt);
    return;
  }
}

bool rendezvous::flush(meeting& m) {
  const auto fresh = m.protocol->take_output();
  m.output.insert(m.output.end(), fresh.begin(), fresh.end());
  bool closed = false;
  const auto num_bytes = write_some(m.socket, m.output, closed);
  m.output.erase(m.output.begin(), m.output.begin() + static_cast<std::ptrdiff_t>(num_bytes));
  if (m.watch != 0)
    events_.change(m.watch, !m.output.empty());
  return !closed;
}

void rendezvous::hand_over(meeting& m) {
  const auto owned = remove(m.id);
  owner_.met({owned->protocol->peer(), owned->token, std::move(owned->socket), owned->protocol->take_reader(),
              std::move(owned->output), std::move(owned->dialled)});
}

void rendezvous::end(meeting& m, const std::string& error, std::optional<refusal> reason) {
  const auto owned = remove(m.id);
  if (owned->token != 0)
    owner_.forget_token(owned->token);
  if (!owned->dialled.empty())
    owner_.missed(owned->dialled, error, reason,
                  owned->protocol ? owned->protocol->peer().node : std::string{});
  else if (reason != refusal::connected)
    owner_.log("guest-refused", error);
}

std::unique_ptr<rendezvous::meeting> rendezvous::remove(std::uint64_t id) {
  const auto i = meetings_.find(id);
  auto result = std::move(i->second);
  meetings_.erase(i);
  if (result->watch != 0)
    events_.forget(std::exchange(result->watch, 0));
  if (result->dialled.empty())
    --num_guests_;
  return result;
}

void rendezvous::cancel(const std::string& endpoint) {
  for (const auto& [id, m] : meetings_) {
    if (m->dialled != endpoint)
      continue;
    const auto owned = remove(id);
    if (owned->token != 0)
      owner_.forget_token(owned->token);
    return;
  }
}

void rendezvous::tick(clock::time_point now) {
  std::vector<std::uint64_t> late;
  for (const auto& [id, m] : meetings_)
    if (now >= m->deadline)
      late.push_back(id);
  for (const auto id : late)
    if (const auto i = meetings_.find(id); i != meetings_.end())
      end(*i->second, "no handshake within the deadline", std::nullopt);
}

} // namespace troupe::wire
