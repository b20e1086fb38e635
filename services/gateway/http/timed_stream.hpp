// A client's stream with deadlines, read-ahead bytes and a farewell.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "services/gateway/http/client_stream.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

namespace troupe::http {

/// All calls come from the socket's executor. Owned by a shared_ptr, which timers keep.
class timed_stream : public std::enable_shared_from_this<timed_stream> {
 public:
  using clock = std::chrono::steady_clock;

  class time_limit;

  /// @param identity      null: no TLS
  /// @param max_buffered  bytes that the read-ahead may hold
  timed_stream(client_stream::tcp_socket socket, const tls_identity* identity, std::size_t max_buffered);

  client_stream& bytes() { return stream_; }

  /// What was read and not used yet.
  boost::beast::flat_buffer& buffer() { return buffer_; }

  /// Reads some more into the buffer. False when nothing more comes, or not before `deadline`.
  task<bool> read_more(clock::time_point deadline);

  /// No request is in progress: to the end of its time such a connection is ended in order, any other one is
  /// cut.
  void set_idle(bool idle) { idle_ = idle; }

  /// A time limit was exceeded.
  bool timed_out() const { return timed_out_; }

  /// The connection is to end when it has no request.
  void drain();

  bool draining() const { return draining_; }

  /// The client has closed the connection, or cannot be written to: it gets nothing more.
  void note_gone() { gone_ = true; }

  bool gone() const { return gone_; }

  /// Tells the client that it has received everything; says nothing to a client that is gone.
  task<void> say_goodbye();

  /// Says goodbye to a client that may still be sending, and reads what it sends for a while.
  task<void> linger();

 private:
  client_stream stream_;
  boost::asio::steady_timer limit_timer_;
  std::uint64_t limit_number_ = 0; // of the time limit in force
  boost::beast::flat_buffer buffer_;
  bool timed_out_ = false;
  bool idle_ = true;
  bool draining_ = false;
  bool gone_ = false;
};

/// While it lives, the next step of the stream has until `end`. Then an idle stream stops reading, and any
/// other one is closed. One at a time.
class timed_stream::time_limit {
 public:
  time_limit(timed_stream& of, clock::time_point end);
  ~time_limit();
  time_limit(const time_limit&) = delete;
  time_limit& operator=(const time_limit&) = delete;

 private:
  timed_stream& of_;
};

} // namespace troupe::http
