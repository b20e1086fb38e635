// One HTTP request and its answer as endpoints see them: no socket, no parser.
#pragma once

#include <functional>
#include <string>
#include <utility> // before Asio: its coroutine headers of Boost 1.74 need std::exchange

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "services/gateway/http/access_record.hpp"
#include "services/gateway/http/message.hpp"

namespace troupe::http {

template <class T>
using task = boost::asio::awaitable<T>;

/// Bytes of an answer that share one write deadline.
inline constexpr std::size_t part_bytes = 256 << 10;

/// An endpoint answers either with send, or with begin_stream, write and end_stream. Everything runs on the
/// connection's executor.
class exchange {
 public:
  virtual ~exchange() = default;
  virtual const request& incoming() const = 0;
  /// The line of the access log; endpoints add what they know.
  virtual access_record& record() = 0;
  /// Frees the body of the request, once it has been parsed.
  virtual void drop_body() = 0;
  virtual boost::asio::any_io_executor executor() = 0;

  /// Sends a whole answer; each `part_bytes` of it have a write deadline. After begin_stream it only ends the
  /// connection.
  virtual task<void> send(response answer) = 0;

  /// Begins an answer of unknown length. False: the client is gone or does not read.
  virtual task<bool> begin_stream(std::string content_type, header_list headers) = 0;
  /// Sends more of the answer, with the deadlines of send. The first call sends the head, too; its text may
  /// be empty. False: the client is gone or does not read.
  virtual task<bool> write(std::string more) = 0;
  virtual task<void> end_stream() = 0;
  /// Gives the answer up: the connection ends after the bytes that were sent.
  virtual void abandon() = 0;

  /// Until unwatch, calls `ended` as soon as the client closes its connection or time is up. Pipelined
  /// requests that arrive meanwhile are kept, up to a bound.
  virtual void watch(std::function<void()> ended) = 0;
  virtual task<void> unwatch() = 0;

  /// The client closed its connection, or was cut.
  virtual bool gone() const = 0;
  /// The client was cut because it did not read in time.
  virtual bool too_slow() const = 0;
  /// The server stops, and its patience is over: the answer must end now.
  virtual bool time_is_up() const = 0;
};

} // namespace troupe::http
