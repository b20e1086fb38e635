// One HTTP request and its answer, as handlers see them: no socket, no parser.
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

/// Of an answer, what the client has one write's time for.
inline constexpr size_t part_bytes = 256 << 10;

/// Exactly one of send, or begin_stream and end_stream, is called for a request. Everything runs on the
/// connection's executor.
class exchange {
 public:
  virtual ~exchange() = default;
  virtual const request& incoming() const = 0;
  /// What the access log will say of it; handlers add what they know.
  virtual access_record& record() = 0;
  /// Frees the request's body: it has been read, and its room is wanted.
  virtual void drop_body() = 0;
  virtual boost::asio::any_io_executor executor() = 0;

  /// Sends a whole answer, each `part_bytes` of it before the write deadline. After begin_stream it is too
  /// late for one: the connection is cut.
  virtual task<void> send(response answer) = 0;

  /// Sends the head of an answer of unknown length. False when the client is gone or does not read.
  virtual task<bool> begin_stream(std::string content_type, header_list headers) = 0;
  /// Sends more of it, in time as send does; false as begin_stream.
  virtual task<bool> write(std::string more) = 0;
  virtual task<void> end_stream() = 0;
  /// The answer will not be completed: the connection ends with what was sent.
  virtual void abandon() = 0;

  /// Calls `ended` as soon as the client closes its connection or time is up, until unwatch. Requests that
  /// are pipelined meanwhile are kept, up to a bound.
  virtual void watch(std::function<void()> ended) = 0;
  virtual task<void> unwatch() = 0;

  /// The client closed its connection, or was cut.
  virtual bool gone() const = 0;
  /// It was cut because it did not read in time.
  virtual bool too_slow() const = 0;
  /// The server stops and has waited as long as it will: what there is of the answer is to be ended now.
  virtual bool time_is_up() const = 0;
};

} // namespace troupe::http
