// The open connections of a server: admits them, tells them to end, and waits until they have ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "services/gateway/http/connection.hpp"
#include "services/gateway/http/connection_table.hpp"

#include <boost/asio/ip/tcp.hpp>

namespace troupe::http {

/// Thread-safe. Outlives the executors of the sockets that it is given.
class connections {
 public:
  /// @param shared, context  outlive this
  connections(api& shared, connection_context& context);

  /// Serves a client on its socket's executor, or answers that there is no place.
  void admit(boost::asio::ip::tcp::socket socket);

  /// Admits no further connections.
  void close();

  /// Tells every connection and waits until all have ended; false when they have not after `patience`.
  bool tell_all(void (connection::*tell)(), std::chrono::milliseconds patience);

 private:
  void turn_away(boost::asio::ip::tcp::socket socket, bool peer_full);

  api& shared_;
  connection_context& context_;
  connection_table table_;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  bool closed_ = false;
  std::unordered_map<const connection*, std::weak_ptr<connection>> open_;
};

} // namespace troupe::http
