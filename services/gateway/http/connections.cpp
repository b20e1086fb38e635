#include "services/gateway/http/connections.hpp"

#include <optional>
#include <string>

#include "services/gateway/http/error_status.hpp"
#include "services/options/option_parser.hpp"

#include <boost/asio/co_spawn.hpp>

namespace troupe::http {

using boost::system::error_code;
namespace asio = boost::asio;
using tcp = asio::ip::tcp;

namespace {

network_address address_of(const asio::ip::address& address) {
  network_address result;
  result.bytes =
      (address.is_v4() ? asio::ip::make_address_v6(asio::ip::v4_mapped, address.to_v4()) : address.to_v6())
          .to_bytes();
  return result;
}

} // namespace

connections::connections(api& shared, connection_context& context)
    : shared_(shared),
      context_(context),
      table_(shared.config.limits.max_connections, shared.config.limits.max_connections_per_peer) {}

void connections::admit(tcp::socket socket) {
  error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error)
    return; // the client has left already
  socket.set_option(tcp::no_delay(true), error);
  if (shared_.config.limits.send_buffer_bytes > 0)
    socket.set_option(
        asio::socket_base::send_buffer_size(static_cast<int>(shared_.config.limits.send_buffer_bytes)),
        error);
  const network_address peer = address_of(remote.address());
  const bool is_proxy = shared_.config.trusted_proxies.contains(peer);
  const std::lock_guard lock{mutex_};
  if (closed_)
    return;
  auto admission = table_.admit(is_proxy ? std::nullopt : std::optional{peer});
  if (admission.made_room)
    shared_.metrics->idle_connection_closed();
  if (!admission.taken)
    return turn_away(std::move(socket), admission.result == connection_table::outcome::peer_full);
  const auto executor = socket.get_executor();
  connection_table::place& place = *admission.taken;
  auto fresh =
      std::make_shared<connection>(std::move(socket), shared_, context_, std::move(admission.taken), peer);
  place.on_loss([weak = std::weak_ptr<connection>(fresh)] {
    if (const auto loser = weak.lock())
      loser->cut();
  });
  open_.emplace(fresh.get(), fresh);
  asio::co_spawn(executor, fresh->run(), [this, fresh](const std::exception_ptr&) mutable {
    const connection* ended = fresh.get();
    fresh.reset();
    const std::lock_guard ending{mutex_};
    open_.erase(ended);
    if (open_.empty())
      all_ended_.notify_all();
  });
}

void connections::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
}

void connections::turn_away(tcp::socket socket, bool peer_full) {
  shared_.metrics->connection_refused(peer_full ? "peer" : "all");
  response refusal = error_response(api_error_of(
      ec::overloaded, peer_full ? "too many connections from this address are open, "
                                      + std::to_string(shared_.config.limits.max_connections_per_peer)
                                      + " (--max-connections-per-peer; --trusted-proxies exempts proxies)"
                                : "too many connections are open, all of them with requests in progress"));
  refusal.status = peer_full ? 429 : 503;
  error_code ignored;
  if (shared_.config.access) {
    access_record record;
    record.method = record.path = "-"; // not read
    record.status = refusal.status;
    record.error = refusal.error;
    if (const auto from = socket.remote_endpoint(ignored); !ignored)
      record.client = host_port_text(from.address().to_string(), from.port());
    shared_.config.access(record);
  }
  // A client that speaks TLS could be answered only after a handshake, for which there is no room.
  if (context_.tls.get())
    return;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(bare_answer(shared_, refusal)), ignored);
}

bool connections::tell_all(void (connection::*tell)(), std::chrono::milliseconds patience) {
  std::unique_lock lock{mutex_};
  for (const auto& [key, weak] : open_)
    if (const auto one = weak.lock())
      ((*one).*tell)();
  return all_ended_.wait_for(lock, patience, [this] { return open_.empty(); });
}

} // namespace troupe::http
