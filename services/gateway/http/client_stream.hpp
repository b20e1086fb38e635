// A client's connection as a stream of bytes: TCP, or TLS over it.
#pragma once

#include <optional>
#include <utility> // before Asio: its coroutine headers of Boost 1.74 need std::exchange

#include "services/gateway/http/exchange.hpp"
#include "services/gateway/http/tls_identity.hpp"

#include <boost/asio/async_result.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/bind_handler.hpp>

namespace troupe::http {

/// The client of a failed handshake speaks HTTP without TLS.
bool is_plain_http(const boost::system::error_code& error);

/// Why a handshake failed, as metrics name it.
const char* handshake_failure(const boost::system::error_code& error, bool timed_out);

/// One type for both, so that the code that serves a connection need not know which it is. Works with the
/// functions of Asio and Beast that read and write. All calls come from the socket's executor, a strand. One
/// read and one write may be in progress at a time. There are no deadlines here: timed_stream has them.
class client_stream {
 public:
  using executor_type = boost::asio::any_io_executor;
  using tcp_socket = boost::asio::ip::tcp::socket;

  /// @param identity  null: no TLS
  client_stream(tcp_socket socket, const tls_identity* identity);
  client_stream(const client_stream&) = delete;
  client_stream& operator=(const client_stream&) = delete;

  executor_type get_executor() { return transport_.socket.get_executor(); }

  bool has_tls() const { return tls_.has_value(); }

  /// The socket below TLS.
  tcp_socket& socket() { return transport_.socket; }

  /// Call first on a stream with TLS.
  task<boost::system::error_code> handshake();

  /// Tells the client that nothing more will be sent, with close_notify of TLS and the end of TCP. What the
  /// client still sends can be read from socket().
  task<void> finish();

  /// Ends the read or handshake in progress with operation_aborted, unless it is complete.
  void stop_reading();

  /// Closes the socket at once; operations in progress fail.
  void close();

  template <class Buffers, class Token>
  BOOST_ASIO_INITFN_RESULT_TYPE(Token, void(boost::system::error_code, std::size_t))
  async_read_some(const Buffers& into, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& buffers) {
          transport_.stopped = false;
          if (tls_)
            tls_->async_read_some(buffers, std::move(handler));
          else
            transport_.async_read_some(buffers, std::move(handler));
        },
        token, into);
  }

  template <class Buffers, class Token>
  BOOST_ASIO_INITFN_RESULT_TYPE(Token, void(boost::system::error_code, std::size_t))
  async_write_some(const Buffers& from, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        [this](auto handler, const Buffers& buffers) {
          if (tls_)
            tls_->async_write_some(buffers, std::move(handler));
          else
            transport_.socket.async_write_some(buffers, std::move(handler));
        },
        token, from);
  }

 private:
  /// TCP whose reading can be stopped for good. A TLS read is several reads of the socket: if one of them
  /// were only cancelled just after it got a part of a record, TLS would start the next one.
  struct transport {
    using lowest_layer_type = tcp_socket;
    using executor_type = tcp_socket::executor_type;

    tcp_socket socket;
    bool stopped = false;

    tcp_socket& lowest_layer() { return socket; }

    const tcp_socket& lowest_layer() const { return socket; }

    executor_type get_executor() { return socket.get_executor(); }

    template <class Buffers, class Handler>
    void async_read_some(const Buffers& into, Handler&& handler) {
      // TLS reads zero bytes to complete a step that has its result; that must not fail.
      if (stopped && boost::asio::buffer_size(into) > 0)
        return boost::asio::post(
            socket.get_executor(),
            boost::beast::bind_front_handler(std::forward<Handler>(handler),
                                             boost::system::error_code(boost::asio::error::operation_aborted),
                                             std::size_t{0}));
      socket.async_read_some(into, std::forward<Handler>(handler));
    }

    template <class Buffers, class Handler>
    void async_write_some(const Buffers& from, Handler&& handler) {
      socket.async_write_some(from, std::forward<Handler>(handler));
    }
  };

  transport transport_;
  std::optional<boost::asio::ssl::stream<transport&>> tls_;
  bool secured_ = false; // the handshake is over
  bool finished_ = false;
};

} // namespace troupe::http
