// One client connection: serves its requests one after the other, from the TLS handshake to the farewell.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/gateway/http/answer_writer.hpp"
#include "services/gateway/http/connection_context.hpp"
#include "services/gateway/http/connection_table.hpp"
#include "services/gateway/http/end_watch.hpp"
#include "services/gateway/http/request_reader.hpp"
#include "services/gateway/http/served_request.hpp"
#include "services/gateway/http/timed_stream.hpp"

namespace troupe::http {

/// Wires the parts of a connection: reading, checking and writing are classes of their own.
class connection final : public exchange, public std::enable_shared_from_this<connection> {
 public:
  connection(client_stream::tcp_socket socket, api& shared, connection_context& context,
             std::unique_ptr<connection_table::place> place, const network_address& peer);
  ~connection() override;

  /// Serves until the client leaves, breaks the rules or idles too long, or the server drains.
  task<void> run();

  /// Ends the connection as soon as it has no request; from any thread.
  void drain();
  /// Answers the request in progress with an error, or ends its stream with one; from any thread.
  void hurry();
  /// Ends the connection at once; from any thread.
  void cut();

  const request& incoming() const override { return request_.incoming; }

  access_record& record() override { return request_.record; }

  void drop_body() override { reader_.drop(request_.incoming.body); }

  boost::asio::any_io_executor executor() override { return stream_->bytes().get_executor(); }

  task<void> send(response answer) override { return writer_.send(std::move(answer)); }

  task<bool> begin_stream(std::string content_type, header_list headers) override {
    co_return writer_.begin_stream(content_type, headers);
  }

  task<bool> write(std::string more) override { return writer_.write(std::move(more)); }

  task<void> end_stream() override { return writer_.end_stream(); }

  void abandon() override { stream_->note_gone(); }

  void watch(std::function<void()> ended) override { watch_.start(std::move(ended), shared_from_this()); }

  task<void> unwatch() override { return watch_.stop(); }

  bool gone() const override { return stream_->gone(); }

  bool too_slow() const override { return writer_.too_slow(); }

  bool time_is_up() const override { return watch_.time_is_up(); }

 private:
  // Steps that return false have ended the connection.
  task<bool> shake_hands();
  task<void> answer_plain_http();
  task<bool> serve_request();
  task<bool> read_body();
  task<bool> refused_if_thrown(task<bool> step);
  task<void> refuse_and_close(response refusal);
  void tell_access();

  api& shared_;
  connection_context& context_;
  std::unique_ptr<connection_table::place> place_;
  const network_address peer_;
  std::string client_; // its address and port
  const std::shared_ptr<timed_stream> stream_;
  served_request request_; // the one in progress, or the last one
  end_watch watch_;
  request_reader reader_;
  answer_writer writer_;
};

} // namespace troupe::http
