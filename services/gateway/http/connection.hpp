// One client connection: reads requests with deadlines and bounds, answers them in order.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/client_requests.hpp"
#include "services/gateway/http/client_stream.hpp"
#include "services/gateway/http/connection_table.hpp"
#include "services/gateway/http/content_coding.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace troupe::http {

struct route;

/// A request that is refused, or has no use for a body, may have so much of one: it is read to its end, so
/// that the connection can be kept.
inline constexpr size_t small_body = 64 << 10;

/// What connections share beside the API.
struct connection_limits {
  const http_limits& bounds;
  std::atomic<size_t> buffered_body_bytes{0};
  client_requests clients{bounds.max_connections_per_peer}; ///< behind trusted proxies
};

class connection final : public exchange, public std::enable_shared_from_this<connection> {
 public:
  connection(boost::asio::ip::tcp::socket socket, api& shared, connection_limits& limits,
             std::unique_ptr<connection_table::place> place, const network_address& peer);
  ~connection() override;

  /// Serves until the client leaves, breaks the rules or idles too long, or the server drains.
  task<void> run();

  /// Ends the connection as soon as it has no request; from any thread.
  void drain();
  /// Has the request in progress answered with an error, or its stream ended with one; from any thread.
  void hurry();
  /// Ends it now, whatever it does; from any thread.
  void cut();

  const request& incoming() const override { return incoming_; }

  access_record& record() override { return record_; }

  void drop_body() override;

  boost::asio::any_io_executor executor() override { return stream_.get_executor(); }

  task<void> send(response answer) override;
  task<bool> begin_stream(std::string content_type, header_list headers) override;
  task<bool> write(std::string more) override;
  task<void> end_stream() override;

  void abandon() override { gone_ = true; }

  void watch(std::function<void()> ended) override;
  task<void> unwatch() override;

  bool gone() const override { return gone_; }

  bool too_slow() const override { return too_slow_; }

  bool time_is_up() const override { return time_is_up_; }

 private:
  using body_parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using header_fields = boost::beast::http::fields;

  class time_limit;

  // From the handshake to the farewell (connection_life.cpp). Steps that return false have ended the
  // connection.
  task<bool> shake_hands();
  void note_failed_handshake(const boost::system::error_code& error);
  task<void> answer_plain_http();
  task<void> say_goodbye();
  task<void> linger();

  // Reading (connection.cpp, connection_body.cpp).
  task<bool> wait_for_request();
  task<bool> serve_request();
  task<bool> read_header();
  task<bool> read_body();
  task<bool> prepare_body();
  task<void> decode_body();
  task<void> refuse_and_close(response refusal);
  void begin_request();
  void note_header();
  const route* check_header(response& early);
  bool is_preflight() const;
  response preflight() const;
  void check_host() const;
  void check_client(response& early);
  void check_key(response& early);
  void check_content(response& early);
  bool has_large_body() const;
  void limit_body(size_t most);
  bool account_body(size_t bytes);
  openai::api_error too_large() const;

  // Answering (connection_answer.cpp).
  template <class Fields>
  void add_common_headers(Fields& fields, const header_list& own) const;
  bool origin_is_allowed() const;
  task<bool> write_parts(std::string_view bytes);
  task<bool> write_bytes(std::string_view bytes);
  void tell_access();
  bool keeps_alive() const;
  void watch_on();
  void watch_full_buffer();
  void watch_step_done();
  void note_end();

  client_stream stream_;
  boost::asio::steady_timer limit_timer_;
  uint64_t limit_number_ = 0; // of the time limit that counts
  bool timed_out_ = false;    // and the connection ends because of that
  boost::beast::flat_buffer buffer_;
  api& shared_;
  connection_limits& limits_;
  std::unique_ptr<connection_table::place> place_;
  const network_address peer_;
  std::chrono::steady_clock::time_point header_deadline_; // of the request that is awaited or read
  bool has_asked_ = false;                                // a request's header has come
  std::optional<body_parser> parser_;
  std::string client_; // its address and port
  bool idle_ = true;
  bool draining_ = false;
  bool gone_ = false;
  bool read_ended_ = false; // the client has said its last; what it said before may still wait in buffer_
  bool too_slow_ = false;
  bool time_is_up_ = false;
  size_t accounted_bytes_ = 0; // of the body, as far as it has arrived

  // The request in progress.
  client_requests::ticket ticket_;
  request incoming_;
  access_record record_;
  std::chrono::steady_clock::time_point begun_;
  std::string origin_;
  const char* route_name_ = "other";
  size_t body_limit_ = 0;
  content_coding coding_ = content_coding::identity; // of the body
  bool http_1_0_ = false;
  bool head_ = false;
  bool keep_alive_ = false; // the client would like to
  bool close_ = false;      // after this answer
  bool answered_ = false;   // at least in part
  std::string stream_head_; // of a stream that has not written yet
  bool chunked_ = false;    // the stream in progress

  // The watch for the end of the connection while a request is answered.
  std::function<void()> on_end_;
  bool watching_ = false;
  bool watch_step_ = false; // an asynchronous step of it is under way
  boost::asio::steady_timer watch_timer_;
  boost::asio::steady_timer watch_ended_;
};

/// While it lives, its connection has until a point of time to get on; then it is given up: an idle one ends
/// as if the client had nothing more to say, the socket of any other one is closed. One at a time.
class connection::time_limit {
 public:
  time_limit(connection& of, std::chrono::steady_clock::time_point end);
  ~time_limit();
  time_limit(const time_limit&) = delete;
  time_limit& operator=(const time_limit&) = delete;

 private:
  connection& of_;
};

} // namespace troupe::http
