// Writes the answers of a connection, each part of them within its deadline.
#pragma once

#include <string>
#include <string_view>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/end_watch.hpp"
#include "services/gateway/http/served_request.hpp"
#include "services/gateway/http/timed_stream.hpp"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>

namespace troupe::http {

/// The first four functions are those of `exchange`.
class answer_writer {
 public:
  /// All outlive this.
  /// @param watch    hears when the client cannot be written to
  /// @param request  the one that is answered; says whether the connection is to be kept
  answer_writer(const api& shared, timed_stream& stream, end_watch& watch, served_request& request)
      : shared_(shared), stream_(stream), watch_(watch), request_(request) {}

  task<void> send(response answer);
  bool begin_stream(const std::string& content_type, const header_list& headers);
  task<bool> write(std::string more);
  task<void> end_stream();

  /// False when the client is gone or does not read in time.
  task<bool> write_bytes(std::string_view bytes);

  /// The connection can have another request after this answer.
  bool keeps_alive() const;

  /// The client did not read in time.
  bool too_slow() const { return too_slow_; }

 private:
  boost::beast::http::response<boost::beast::http::empty_body>
  head_of(unsigned status, const std::string& content_type, const header_list& own) const;
  task<bool> write_parts(std::string_view bytes);

  const api& shared_;
  timed_stream& stream_;
  end_watch& watch_;
  served_request& request_;
  bool too_slow_ = false;
};

/// The bytes of an answer that ends its connection, to a client whose request was not read. It has a request
/// id of its own.
std::string bare_answer(const api& shared, const response& answer);

} // namespace troupe::http
