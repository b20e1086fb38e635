// A client that sends exactly the given bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace troupe::http_test {

struct raw_response {
  int status = 0;                             ///< 0: the connection ended instead
  std::map<std::string, std::string> headers; ///< names in lower case
  std::string body;                           ///< chunks concatenated
  bool complete = false;
};

/// A blocking connection to 127.0.0.1; every read gives up after ten seconds.
class raw_client {
 public:
  explicit raw_client(std::uint16_t port, int receive_buffer_bytes = 0);
  virtual ~raw_client();
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  /// False when the server has closed.
  bool send(std::string_view bytes);
  /// `METHOD path` with a Host header, `headers` (each with its CRLF) and a body with its length.
  bool request(const std::string& method, const std::string& path, const std::string& body = {},
               const std::string& headers = {});
  /// The next response. `head`: it has no body, whatever its length field says.
  raw_response read(bool head = false);
  /// Receives at least N further bytes, for the next read; false if the server closes before.
  bool take(std::size_t bytes);
  /// Bytes up to and including `end`; all that arrived if the server closes before.
  std::string read_until(std::string_view end);
  /// Whether the server closes without another byte.
  bool ends();
  void close();
  /// Ends the sending side; answers can still be read.
  void half_close();

 protected:
  /// Like ::recv and ::send, of at most N bytes; tls_client adds its records in between.
  virtual ssize_t receive(char* bytes, std::size_t most);
  virtual ssize_t transmit(const char* bytes, std::size_t count);

 private:
  bool fill();
  int socket_ = -1;
  std::string buffer_;
};

/// Sends one request on a connection of its own.
raw_response ask(std::uint16_t port, const std::string& method, const std::string& path,
                 const std::string& body = {}, const std::string& headers = {});

/// The `data:` lines of a stream, in order.
std::vector<std::string> events_of(const std::string& body);

} // namespace troupe::http_test
